package synth

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// recipeText is the run's recipe: two environments, every policy that makes
// groups end in another way.
const recipeText = `
name: synthetic
description: Made up to be looked at; nobody played it.
seed: %d
environments:
  - {name: frozenlake, agent: conversation, weight: 2, min_share: 0.25}
  - {name: calculator, agent: tool, params: {min_operations: 1, max_operations: 2}}
sampling: {temperature: 1.0, top_p: 0.95, max_new_tokens: 256}
dataset:
  seeds: {first: 1000000, count: 1000000000}
  eval_seeds: {first: 0, count: 256}
grouper:
  group_size: %d
  groups_per_batch: %d
  max_staleness: 2
  group_deadline: 3m
  slot_timeout: 75s
  slot_retries: 2
  min_group_size: 7
  zero_variance: refill
  overlong: mask
  evaluation: {every: %d, tasks: 24}
bridge: {layout: padded, buckets: [128, 512, 2048, 32768], rows: %d}
model: {max_context: 32768}
trainer: {steps: %d, lr: 1.0e-3, entropy: 0.01, checkpoint_every: %d}
engine: {count: %d}
`

// checkpointEvery is how often the made-up trainer saves.
const checkpointEvery = 20

func (o Options) recipe() (*recipe.Recipe, error) {
	every := max(4, o.Steps/12)
	text := fmt.Sprintf(recipeText, o.Seed, groupSize, o.groups(), every, o.groups()*groupSize, o.Steps, checkpointEvery, engineCount)
	r, err := recipe.Parse("synthetic", []byte(text))
	if err != nil {
		return nil, fmt.Errorf("synthetic run: %w", err)
	}
	return r, nil
}

// vocabulary is that of all that is played.
func vocabulary(r *recipe.Recipe) (*tokenizer.Words, error) {
	var words []string
	for _, e := range r.Played() {
		words = append(words, builtin.Specs()[e.Name].Words...)
	}
	return tokenizer.NewWords(words...)
}

// record is what the bus keeps of the run, which has ended.
func (o Options) record(r *recipe.Recipe, tok *tokenizer.Words, ended string) (*subjects.RunRecord, error) {
	text, err := r.Marshal()
	if err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("synthetic run: %w", err)
	}
	sum := sha256.Sum256(data)
	return &subjects.RunRecord{V: 1, Run: o.Run, Created: o.Start.UnixNano(), Version: "synthetic", Schema: subjects.SchemaVersion,
		Tokenizer: tok.ID(), Recipe: data, Hash: hex.EncodeToString(sum[:]), Ended: ended}, nil
}

// key is the run's lease key: no secret, since it follows from the seed.
func (o Options) key() []byte {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("synthetic run "+string(o.Run)), uint64(o.Seed))) //nolint:gosec // bits
	return sum[:]
}
