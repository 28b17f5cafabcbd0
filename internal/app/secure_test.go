package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

const secureSteps = 3

const secureRecipe = `name: lake
environment: {name: frozenlake}
dataset: {eval_seeds: {first: 0, count: 1}}
grouper: {group_size: 4, groups_per_batch: 1, max_staleness: 4, zero_variance: keep, evaluation: {every: 0}}
bridge: {buckets: [160]}
model: {max_context: 160}
trainer: {steps: 3}
`

// journal is a log that may be read while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// fleet is a run whose every role has its own credentials, on a server that
// checks them, over TLS.
type fleet struct {
	t      *testing.T
	server *natstest.Secure
	log    *journal
	dir    string // of sockets and weights
}

func newFleet(ctx context.Context, t *testing.T) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "hr") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fleet{t: t, server: natstest.NewSecure(t, testRun), log: &journal{}, dir: dir}
	admin := f.join("admin")
	admin.Recipe = filepath.Join(dir, "lake.yaml")
	if err := os.WriteFile(admin.Recipe, []byte(secureRecipe), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CreateRun(ctx, admin, 1); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fleet) join(name string) Join {
	log := zerolog.New(f.log).Level(zerolog.DebugLevel).With().Str("who", name).Logger()
	return Join{Bus: f.server.Options(name), Run: testRun, Wait: 10 * time.Second, Log: log}
}

// start runs every role but the trainer.
func (f *fleet) start(s *stack) (roles []*part, socket string) {
	socket = "unix:" + filepath.Join(f.dir, "feed")
	engine := sglangtest.Start(f.t, "")
	return []*part{
		s.start("grouper", func(ctx context.Context) error { return Group(ctx, f.join("grouper"), "g") }),
		s.start("bridge", func(ctx context.Context) error {
			return Bridge(ctx, f.join("trainer"), BridgeOptions{Listen: []string{socket}, Weights: f.dir, Checkpoints: f.dir})
		}),
		s.start("engine", func(ctx context.Context) error {
			return Engine(ctx, f.join("engine"), EngineOptions{Name: "engine", URL: engine.URL})
		}),
		s.start("p01", func(ctx context.Context) error {
			return Produce(ctx, f.join("producers/p01"), ProduceOptions{Name: "p01"})
		}),
		s.start("p02", func(ctx context.Context) error {
			return Produce(ctx, f.join("producers/p02"), ProduceOptions{Name: "p02"})
		}),
	}, socket
}

// train is the trainer: it publishes weights, takes and commits every step, and
// says when it did.
func (f *fleet) train(ctx context.Context, socket string, did func(subjects.Step)) {
	f.t.Helper()
	c := dial(ctx, f.t, socket)
	f.must(c.Weights(f.weights(0)))
	for step := subjects.Step(1); step <= secureSteps; step++ {
		b, _, err := c.Next()
		if err != nil {
			f.t.Fatalf("step %d: %v\n%s", step, err, f.log)
		}
		f.must(errors.Join(c.Release(b), c.Commit(feed.Commit{Step: b.Step}), c.Weights(f.weights(step))))
		did(step)
	}
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != "complete" {
		f.t.Errorf("%v, want the end of the run", err)
	}
	f.must(c.Close("done"))
}

func (f *fleet) weights(step subjects.Step) feed.Weights {
	data := []byte{byte(step)}
	dir := filepath.Join(f.dir, "w", string(rune('0'+step)))
	f.must(os.MkdirAll(dir, 0o700))
	f.must(os.WriteFile(filepath.Join(dir, "model.safetensors"), data, 0o600))
	sum := sha256.Sum256(data)
	return feed.Weights{Version: subjects.PolicyVersion(step), Step: step, Dir: dir, Format: "safetensors",
		Files: []subjects.File{{Name: "model.safetensors", Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}}}
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestSecure_EveryRolesOwnCodeWorksUnderItsOwnCredentials is a whole run; a
// permission that is missing shows in a role's error, in the log or as a hang.
func TestSecure_EveryRolesOwnCodeWorksUnderItsOwnCredentials(t *testing.T) {
	ctx := limited(t)
	f := newFleet(ctx, t)
	s := parts(t)
	roles, socket := f.start(s)
	f.train(ctx, socket, func(subjects.Step) {})
	for _, r := range roles { // each hears that the run has ended
		select {
		case <-r.done:
		case <-ctx.Done():
			t.Errorf("%s goes on after the end of the run", r.name)
		}
	}
	s.stop()
	log := f.log.String()
	for line := range strings.Lines(log) {
		if strings.Contains(line, "not permitted") || strings.Contains(line, "permission") {
			t.Error(line)
		}
	}
	f.viewerSees(ctx)
	for _, name := range []string{"admin", "grouper", "trainer", "viewer"} { // each may audit, as far as it may see
		report, err := Audit(ctx, Source{Bus: f.server.Options(name), Remote: true}, testRun, audit.Options{})
		if err != nil || !report.OK {
			t.Errorf("%s audits: %v", name, err)
		}
	}
	f.keepsSecrets(ctx, log)
}

// TestSecure_AGrouperThatComesBackGoesOn: with it goes the desk that producers
// have their tasks from, and comes back.
func TestSecure_AGrouperThatComesBackGoesOn(t *testing.T) {
	ctx := limited(t)
	f := newFleet(ctx, t)
	s := parts(t)
	roles, socket := f.start(s)
	grouper := roles[0]
	f.train(ctx, socket, func(step subjects.Step) {
		if step < secureSteps {
			grouper.cancel()
			<-grouper.done
			grouper = s.start("grouper again", func(ctx context.Context) error { return Group(ctx, f.join("grouper"), "g") })
		}
	})
}

// viewerSees: the viewer reads all that the run left.
func (f *fleet) viewerSees(ctx context.Context) {
	conn := f.server.Connect(f.t, "viewer")
	if _, err := join(ctx, conn, testRun, zerolog.Nop()); err != nil {
		f.t.Error(err)
	}
	batches := 0
	f.must(entries(ctx, conn, testRun, func(_ uint64, e *subjects.Entry) { batches += len(e.Batches) }))
	if batches != secureSteps {
		f.t.Errorf("the viewer sees %d batches", batches)
	}
	for _, stream := range []subjects.Stream{subjects.Rollouts, subjects.Weights, subjects.Telemetry} {
		n := 0
		f.must(readAll(ctx, conn, testRun, stream, func(*bus.Msg) { n++ }))
		if n == 0 {
			f.t.Errorf("the viewer sees nothing in %s", stream)
		}
	}
	if _, err := bus.Last(ctx, conn, testRun.StreamName(subjects.Ledger), testRun.LedgerSubject()); err != nil {
		f.t.Error(err)
	}
}

// seeds are the secrets of keys, in whatever text.
var seeds = regexp.MustCompile(`\bS[UAONC][A-Z2-7]{56}\b`)

// keepsSecrets: none is in what the roles logged or in the run's record.
func (f *fleet) keepsSecrets(ctx context.Context, log string) {
	record, err := bus.LookupRun(ctx, f.server.Connect(f.t, "admin"), testRun)
	f.must(err)
	text, err := json.Marshal(record)
	f.must(err)
	found := 0
	f.must(filepath.WalkDir(f.server.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, secret := range append(seeds.FindAllString(string(b), -1), body(b)...) {
			found++
			if strings.Contains(log, secret) || strings.Contains(string(text), secret) {
				f.t.Errorf("a secret of %s is in the log or the record", path)
			}
		}
		return nil
	}))
	if found < 10 {
		f.t.Errorf("found %d secrets to look for", found)
	}
	if seeds.MatchString(log) || seeds.Match(text) {
		f.t.Error("a seed is in the log or the record")
	}
}

// body is the middle of a private key.
func body(b []byte) []string {
	_, rest, ok := strings.Cut(string(b), "PRIVATE KEY-----\n")
	if !ok {
		return nil
	}
	line, _, _ := strings.Cut(rest, "\n")
	return []string{line}
}
