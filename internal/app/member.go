package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/builtin"
	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// member is a process that takes part in a run: it knows the run's recipe,
// from the record on the bus, and everything that follows from it.
type member struct {
	run    subjects.Run
	conn   *bus.Conn
	record *subjects.RunRecord
	recipe *recipe.Recipe
	plays  []play
	tok    *tokenizer.Words
	log    zerolog.Logger
}

// play is one environment of the run.
type play struct {
	recipe.Environment
	spec   envs.Spec
	params json.RawMessage
}

// playsOf looks up what a recipe plays, and the vocabulary for all of it.
func playsOf(r *recipe.Recipe) ([]play, *tokenizer.Words, error) {
	var plays []play
	var words []string
	for _, e := range r.Played() {
		params, err := e.JSON()
		if err != nil {
			return nil, nil, fmt.Errorf("environment %s: %w", e.Name, err)
		}
		spec := builtin.Specs()[e.Name]
		plays = append(plays, play{Environment: e, spec: spec, params: params})
		words = append(words, spec.Words...)
	}
	tok, err := tokenizer.NewWords(words...)
	return plays, tok, err
}

// newRecord is the record of a new run: its recipe, resolved.
func newRecord(run subjects.Run, r *recipe.Recipe) (*subjects.RunRecord, error) {
	text, err := r.Marshal()
	if err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("encode recipe: %w", err)
	}
	_, tok, err := playsOf(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &subjects.RunRecord{V: 1, Run: run, Created: time.Now().UnixNano(), Version: BuildInfo().Version,
		Schema: subjects.SchemaVersion, Tokenizer: tok.ID(), Recipe: data, Hash: hex.EncodeToString(sum[:])}, nil
}

// createRecord writes the record of a new run.
func createRecord(ctx context.Context, c *bus.Conn, run subjects.Run, r *recipe.Recipe) error {
	record, err := newRecord(run, r)
	if err != nil {
		return err
	}
	if err := bus.CreateRun(ctx, c, record); errors.Is(err, bus.ErrConflict) {
		return fmt.Errorf("%w: the bus has a run %s already; go on with it by --resume, or choose another name with --run", ErrRunExists, run)
	} else if err != nil {
		return err
	}
	return nil
}

// ensureRun makes a run on a bus, unless it is there with the same recipe.
func ensureRun(ctx context.Context, c *bus.Conn, run subjects.Run, r *recipe.Recipe, replicas int) error {
	if err := group.Fits(r.Grouper, c.MaxPayload()); err != nil {
		return fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	options := r.StreamOptions()
	options.Replicas = replicas
	if err := bus.EnsureStreams(ctx, c, run, options); err != nil {
		return err
	}
	want, err := newRecord(run, r)
	if err != nil {
		return err
	}
	err = bus.CreateRun(ctx, c, want)
	if !errors.Is(err, bus.ErrConflict) {
		return err
	}
	have, err := bus.LookupRun(ctx, c, run)
	if err == nil && have.Hash != want.Hash {
		err = fmt.Errorf("%w: run %s on this bus has another recipe; join it without a recipe, or choose another name", ErrRunExists, run)
	}
	return err
}

// errNoRun: the bus has no run of that name.
var errNoRun = errors.New("no run")

// join reads the run's record. A process needs a connection and the run's name
// for it, and nothing else.
func join(ctx context.Context, c *bus.Conn, run subjects.Run, log zerolog.Logger) (*member, error) {
	record, err := bus.LookupRun(ctx, c, run)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, fmt.Errorf("%w %s on this bus: `headrace runs` lists what there is, `headrace runs create` makes one", errNoRun, run)
	}
	if errors.Is(err, bus.ErrIncompatible) {
		return nil, fmt.Errorf("%w (this is %s)", err, BuildInfo().Version)
	}
	if err != nil {
		return nil, err
	}
	if string(record.Recipe) == "{}" {
		return nil, fmt.Errorf("run %s was imported without a recipe: `headrace show %s trajectory ID` and `headrace export %s` need none", run, run, run)
	}
	r, err := recipe.Parse("run "+string(run), record.Recipe)
	if err != nil {
		return nil, fmt.Errorf("the recipe of run %s is not one this build (%s) can read; it was made by %s: %w", run, BuildInfo().Version, record.Version, err)
	}
	m := &member{run: run, conn: c, record: record, recipe: r, log: log}
	if m.plays, m.tok, err = playsOf(r); err != nil {
		return nil, err
	}
	if m.tok.ID() != record.Tokenizer {
		return nil, fmt.Errorf("run %s has the vocabulary %s, this build (%s) makes %s of its recipe: use the build that created the run (%s)",
			run, record.Tokenizer, BuildInfo().Version, m.tok.ID(), record.Version)
	}
	return m, nil
}

// modelConfig is the config.json of the reference model.
type modelConfig struct {
	Architecture string  `json:"architecture"`
	VocabSize    int     `json:"vocab_size"`
	DModel       int     `json:"d_model"`
	Layers       int     `json:"layers"`
	Heads        int     `json:"heads"`
	DFF          int     `json:"d_ff"`
	RopeTheta    float64 `json:"rope_theta"`
	MaxContext   int     `json:"max_context"`
	PadID        int32   `json:"pad_id"`
	EOSID        int32   `json:"eos_id"`
	NormEps      float64 `json:"norm_eps"`
}

func (m *member) modelConfig() modelConfig {
	c := &m.recipe.Model
	return modelConfig{Architecture: "headrace-decoder", VocabSize: m.tok.VocabSize(), DModel: c.DModel, Layers: c.Layers, Heads: c.Heads,
		DFF: c.DFF, RopeTheta: 1000, MaxContext: c.MaxContext, PadID: m.tok.PadID(), EOSID: m.tok.EOSID(), NormEps: 1e-6}
}

// writeModel writes the folder that the engines start from: no weights, only
// what they will look like.
func (m *member) writeModel(dir string) error {
	data, err := json.MarshalIndent(m.modelConfig(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make model folder: %w", err)
	}
	return writeFile(filepath.Join(dir, "config.json"), data)
}

// yardsticks plays the scripted players on the held-out tasks of a run that
// plays one environment.
func (m *member) yardsticks() (map[string]float64, error) {
	eval := m.recipe.Grouper.Evaluation
	p := &m.plays[0]
	if len(m.plays) > 1 || p.spec.Yardsticks == nil || eval.Every == 0 || m.recipe.Dataset.Path != "" {
		return nil, nil
	}
	seeds := make([]int64, eval.Tasks)
	for i := range seeds {
		seeds[i] = m.recipe.Dataset.EvalSeeds.First + int64(i)
	}
	out, err := p.spec.Yardsticks(p.params, seeds)
	if err != nil {
		return nil, fmt.Errorf("play the yardsticks: %w", err)
	}
	return out, nil
}
