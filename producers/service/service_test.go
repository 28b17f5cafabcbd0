package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/producers/service"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

const run subjects.Run = "lake"

// stage is a run on a real server.
type stage struct {
	t      *testing.T
	server *bus.Server
	conn   *bus.Conn
	words  *tokenizer.Words
	mu     sync.Mutex
	got    map[string]*subjects.Trajectory // by id, the first of each
	twice  int
	seen   uint64 // the last sequence that was read
}

func open(t *testing.T) *stage { return openWith(t, subjects.StreamOptions{}) }

func openWith(t *testing.T, o subjects.StreamOptions) *stage {
	s := &stage{t: t, server: natstest.InProcess(t), got: map[string]*subjects.Trajectory{}}
	s.conn = natstest.Connect(t, s.server)
	var err error
	if s.words, err = tokenizer.NewWords(builtin.Specs()["frozenlake"].Words...); err != nil {
		t.Fatal(err)
	}
	if err := bus.EnsureStreams(t.Context(), s.conn, run, o); err != nil {
		t.Fatal(err)
	}
	s.record(subjects.SchemaVersion)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = bus.FollowBundles(ctx, s.conn, run, 1, func(_ *bus.Msg, b *bus.Bundle, err error) error {
			return s.take(b, err)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// take keeps the trajectories of a bundle.
func (s *stage) take(b *bus.Bundle, err error) error {
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = b.Seq
	for i := range b.Items {
		t, err := subjects.DecodeTrajectory(b.Body(i))
		if err != nil {
			return err
		}
		if _, ok := s.got[t.ID()]; ok {
			s.twice++
			continue
		}
		s.got[t.ID()] = t
	}
	return nil
}

func (s *stage) record(schema int) {
	s.t.Helper()
	if err := bus.PutRun(s.t.Context(), s.conn, &subjects.RunRecord{V: 1, Run: run, Schema: schema, Recipe: json.RawMessage("{}")}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) engine(name string) *sglangtest.Server {
	e := sglangtest.Start(s.t, "4")
	e.Tokens = s.words.Encode("up")
	s.register(name, e.URL)
	return e
}

func (s *stage) register(name, url string) {
	s.t.Helper()
	if err := bus.PutEngine(s.t.Context(), s.conn, run, &subjects.EngineRecord{V: 1, Engine: name, URL: url, Version: 4, Ready: true, At: time.Now().UnixNano()}); err != nil {
		s.t.Fatal(err)
	}
}

// config is a producer that plays frozenlake.
func (s *stage) config(name string) service.Config {
	s.t.Helper()
	template, err := tokenizer.NewChatML(s.words)
	if err != nil {
		s.t.Fatal(err)
	}
	spec := builtin.Specs()["frozenlake"]
	agent, err := agents.New(agents.Conversation, spec.System)
	if err != nil {
		s.t.Fatal(err)
	}
	return service.Config{Run: run, Slots: 8, Drain: 100 * time.Millisecond, Log: zerolog.Nop(),
		Player: producers.Config{Producer: name, Tokenizer: s.words, Template: template, Log: zerolog.Nop(),
			Environments: map[string]producers.Setup{"frozenlake": {Agent: agent, MaxTurns: 4, New: func() (envs.Environment, error) { return spec.New(nil) }}}}}
}

// start runs a producer; the returned function stops it and returns its error.
func (s *stage) start(cfg service.Config) (stop func() error) { return s.startOn(s.conn, cfg) }

func (s *stage) startOn(conn *bus.Conn, cfg service.Config) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, conn, cfg) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

func (s *stage) tasks(first, count int) {
	s.t.Helper()
	for i := first; i < first+count; i++ {
		task := &subjects.Task{V: 1, Kind: subjects.Train, Group: subjects.TrainGroup(uint64(i)), Environment: "frozenlake", Seed: int64(i),
			Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 4, Seed: uint64(i)}, Issued: time.Now().UnixNano()}
		if _, err := bus.PublishTask(s.t.Context(), s.conn, run, task); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

func (s *stage) await(n int) {
	s.t.Helper()
	sglangtest.Eventually(s.t, fmt.Sprintf("%d trajectories", n), func() bool { return s.count() >= n })
}

// queued is how many tasks are left, leased ones included.
func (s *stage) queued() int {
	stream, err := s.conn.JS().Stream(s.t.Context(), run.StreamName(subjects.Tasks))
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := stream.Info(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return int(info.State.Msgs)
}

func (s *stage) awaitDone(n int) {
	s.t.Helper()
	s.await(n)
	sglangtest.Eventually(s.t, "all leases acked", func() bool { return s.queued() == 0 })
}

func TestService_PlaysEveryTaskAndAcksIt(t *testing.T) {
	s := open(t)
	s.engine("e1")
	s.tasks(0, 40)
	stop := s.start(s.config("p1"))
	s.awaitDone(40)
	if err := stop(); err != nil {
		t.Error(err)
	}
	for id, got := range s.got {
		if !got.Status.Trained() || got.Producer != "p1" || got.Engine != "e1" || got.Tokenizer != s.words.ID() {
			t.Errorf("%s is %s (%s) of producer %s, engine %s", id, got.Status, got.Reason, got.Producer, got.Engine)
		}
		if err := got.Check(s.words.VocabSize()); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if v := got.Segments[0].Versions[0].Version; v != 4 {
			t.Errorf("%s was sampled by version %d", id, v)
		}
	}
	if s.twice != 0 {
		t.Errorf("%d trajectories came twice", s.twice)
	}
}

func TestService_EngineThatDiesMidRunCostsNothing(t *testing.T) {
	s := open(t)
	one := s.engine("e1")
	s.engine("e2")
	one.Answer = func(w http.ResponseWriter, _ *http.Request, q sglangtest.Request) bool {
		if len(q.InputIDs) < 60 {
			return false // the first turns; then it is gone
		}
		one.SetDown(true)
		sglangtest.Hangup(w)
		return true
	}
	s.start(s.config("p1"))
	s.tasks(0, 40)
	s.awaitDone(40)
	for id, got := range s.got {
		if !got.Status.Trained() {
			t.Errorf("%s: %s", id, got.Reason)
		}
	}
}

func TestService_StoppedProducerHandsItsLeasesOnAtOnce(t *testing.T) {
	s := open(t)
	slow := s.engine("e1")
	hold, arrived := make(chan struct{}), make(chan struct{})
	release, arrive := sync.OnceFunc(func() { close(hold) }), sync.OnceFunc(func() { close(arrived) })
	defer release()
	slow.Answer = func(_ http.ResponseWriter, r *http.Request, q sglangtest.Request) bool {
		if len(q.InputIDs) == 1 {
			return false // the probe
		}
		arrive()
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		return r.Context().Err() != nil
	}
	s.tasks(0, 8)
	stop := s.start(s.config("p1"))
	<-arrived
	begun := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the drain took %v", took)
	}
	release()
	s.start(s.config("p2"))
	s.awaitDone(8)
	if took := time.Since(begun); took > bus.LeaseTime/2 {
		t.Errorf("the leases came back after %v, as if nobody had handed them back", took)
	}
}

func TestService_FullStreamHoldsItBackAndLosesNothing(t *testing.T) {
	s := openWith(t, subjects.StreamOptions{RolloutBytes: 32 << 10})
	s.engine("e1")
	s.tasks(0, 60)
	stop := s.start(s.config("p1"))
	sglangtest.Eventually(t, "the stream is full", func() bool {
		m, err := bus.Last(t.Context(), s.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject("produce", "p1"))
		var g subjects.Gauges
		return err == nil && subjects.DecodeMessage(m.Data, &g) == nil && g.Values["publisher_blocked"] == 1
	})
	begun := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the drain took %v behind a full stream", took)
	}
	stream, err := s.conn.JS().Stream(t.Context(), run.StreamName(subjects.Rollouts))
	if err != nil {
		t.Fatal(err)
	}
	purge := time.NewTicker(50 * time.Millisecond)
	defer purge.Stop()
	s.start(s.config("p2"))
	for s.count() < 60 {
		select {
		case <-purge.C:
			s.mu.Lock()
			seen := s.seen
			s.mu.Unlock()
			if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(seen+1)); err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nothing moves")
		}
		if time.Since(begun) > 40*time.Second {
			t.Fatalf("%d of 60 after %v", s.count(), time.Since(begun))
		}
	}
}

// stuck is an environment whose every step hangs.
type stuck struct{ door chan struct{} }

func (e stuck) Reset(context.Context, envs.Task) (envs.Observation, error) {
	return envs.Observation{Messages: []envs.Message{{Role: envs.RoleUser, Content: "hello"}}}, nil
}
func (e stuck) Step(context.Context, envs.Action) (envs.StepResult, error) {
	<-e.door
	return envs.StepResult{}, errors.New("too late")
}
func (e stuck) Close() error { return nil }

func TestService_HangingEnvironmentIsReportedThenGivenUp(t *testing.T) {
	s := open(t)
	s.engine("e1")
	s.tasks(0, 20)
	door := make(chan struct{})
	defer close(door)
	cfg := s.config("p1")
	setup := cfg.Player.Environments["frozenlake"]
	setup.New = func() (envs.Environment, error) { return stuck{door}, nil }
	cfg.Player.Environments["frozenlake"] = setup
	cfg.Player.Limits = producers.Limits{Step: 20 * time.Millisecond, Grace: 10 * time.Millisecond}
	cfg.MaxLeaked = 8
	done := make(chan error, 1)
	go func() { done <- service.Run(t.Context(), s.conn, cfg) }()
	select {
	case err := <-done:
		if !errors.Is(err, service.ErrLeaked) {
			t.Errorf("error %v, want ErrLeaked", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the service goes on")
	}
	s.await(8)
	for id, got := range s.got {
		if got.Status != subjects.Failed || got.Reward != 0 || !strings.Contains(got.Reason, "environment step took longer") {
			t.Errorf("%s is %s: %s", id, got.Status, got.Reason)
		}
	}
}

func TestService_RefusesWhatItCannotServe(t *testing.T) {
	s := open(t)
	for name, c := range map[string]struct {
		change func(*service.Config)
		want   string
	}{
		"no such run":      {func(c *service.Config) { c.Run = "nowhere" }, "nowhere"},
		"other vocabulary": {func(c *service.Config) { c.Tokenizer = "other" }, "vocabulary other"},
		"bad name":         {func(c *service.Config) { c.Player.Producer = "a.b" }, `producer name "a.b"`},
		"bad run":          {func(c *service.Config) { c.Run = "A B" }, "run name"},
	} {
		cfg := s.config("p1")
		c.change(&cfg)
		if err := service.Run(t.Context(), s.conn, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	s.record(subjects.SchemaVersion + 1)
	if err := service.Run(t.Context(), s.conn, s.config("p1")); !errors.Is(err, bus.ErrIncompatible) {
		t.Errorf("newer schema: error %v, want ErrIncompatible", err)
	}
}

func TestService_RefusesAnEngineWithoutLogprobsAtStart(t *testing.T) {
	s := open(t)
	e := s.engine("e1")
	e.Answer = func(w http.ResponseWriter, _ *http.Request, q sglangtest.Request) bool {
		answer := sglangtest.Good(q, e.Tokens, "4")
		delete(answer["meta_info"].(map[string]any), "output_token_logprobs")
		_ = json.NewEncoder(w).Encode(answer)
		return true
	}
	err := service.Run(t.Context(), s.conn, s.config("p1"))
	if !errors.Is(err, producers.ErrBadAnswer) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that says why", err)
	}
}

func TestService_ReportsGauges(t *testing.T) {
	s := open(t)
	s.engine("e1")
	s.tasks(0, 5)
	stop := s.start(s.config("p1"))
	s.awaitDone(5)
	if err := stop(); err != nil {
		t.Error(err)
	}
	var g subjects.Gauges
	sglangtest.Eventually(t, "gauges", func() bool {
		m, err := bus.Last(t.Context(), s.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject("produce", "p1"))
		return err == nil && subjects.DecodeMessage(m.Data, &g) == nil && g.Values["published"] == 5
	})
	for _, name := range []string{"slots", "episodes_live", "tokens_sampled", "engine_wait_seconds", "env_wait_seconds", "leaked", "publisher_bundles", "engines_live"} {
		if _, ok := g.Values[name]; !ok {
			t.Errorf("no gauge %s", name)
		}
	}
	if g.Values["tokens_sampled"] == 0 || g.Values["episodes_failed"] != 0 {
		t.Errorf("%v", g.Values)
	}
}
