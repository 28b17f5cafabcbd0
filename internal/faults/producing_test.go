package faults

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	producing "github.com/headrace/headrace/producers/service"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// frozenlake runs the real producer against an engine until stop; slots are
// episodes at once.
func (p *pipeline) frozenlake(slots int, answer func(q sglangtest.Request) (version string)) (stop func()) {
	p.Helper()
	p.cfg.Environment = "frozenlake"
	words, err := tokenizer.NewWords(builtin.Specs()["frozenlake"].Words...)
	p.must(err)
	template, err := tokenizer.NewChatML(words)
	p.must(err)
	spec := builtin.Specs()["frozenlake"]
	agent, err := agents.New(agents.Conversation, spec.System)
	p.must(err)
	engine := sglangtest.Start(p, "4")
	engine.Tokens = words.Encode("up")
	engine.Answer = func(w http.ResponseWriter, _ *http.Request, q sglangtest.Request) bool {
		return json.NewEncoder(w).Encode(sglangtest.Good(q, engine.Tokens, answer(q))) == nil
	}
	p.must(bus.PutRun(p.Context(), p.conn, &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: json.RawMessage("{}")}))
	p.must(bus.PutEngine(p.Context(), p.conn, run, &subjects.EngineRecord{V: 1, Engine: "e1", URL: engine.URL, Version: 4, Ready: true, At: time.Now().UnixNano()}))
	cfg := producing.Config{Run: run, Slots: slots, Drain: 100 * time.Millisecond, Log: zerolog.Nop(),
		Player: producers.Config{Producer: "real", Tokenizer: words, Template: template, Log: zerolog.Nop(),
			Environments: map[string]producers.Setup{"frozenlake": {Agent: agent, MaxTurns: 4, New: func() (envs.Environment, error) { return spec.New(nil) }}}}}
	stop = p.start(func(ctx context.Context) error { return producing.Run(ctx, p.conn, cfg) })
	p.Cleanup(stop)
	return stop
}

// indexes waits for the index entries of so many trajectories.
func (p *pipeline) indexes(n int) (out []subjects.IndexEntry) {
	p.Helper()
	done := errors.New("done")
	err := bus.FollowHeaders(p.ctx(), p.conn, run, 1, func(msgs []bus.HeaderMsg) error {
		for _, m := range msgs {
			for _, text := range m.Header[subjects.HeaderIndex] {
				e, err := subjects.ParseIndex(text)
				p.must(err)
				out = append(out, e)
			}
		}
		if len(out) >= n {
			return done
		}
		return nil
	})
	if len(out) < n {
		p.Fatalf("%d trajectories of %d: %v", len(out), n, err)
	}
	return out
}

// New weights land between the turns of an episode: it is as old as its oldest
// token, and says so.
func TestComplaint_17_WeightsThatLandMidRolloutShowInItsVersions(t *testing.T) {
	p := live(t, tasks(3))
	first := atomic.Int64{}
	p.frozenlake(8, func(q sglangtest.Request) string {
		if n := int64(len(q.InputIDs)); n > 1 && (first.Load() == 0 || n <= first.Load()) {
			first.CompareAndSwap(0, n) // the first turn's length
			return "4"
		}
		return "5"
	})
	defer p.group()()
	mixed := 0
	for _, e := range p.indexes(8) {
		switch {
		case e.MinVersion == 4 && e.MaxVersion == 5:
			mixed++
		case e.MaxVersion < e.MinVersion || e.MinVersion < 4 || e.MaxVersion > 5:
			t.Errorf("%s says versions %d to %d", e.ID(), e.MinVersion, e.MaxVersion)
		}
	}
	if mixed == 0 {
		t.Error("no trajectory says that it was sampled by two versions")
	}
}

// Each limit holds in the unit that its documentation names.
func TestComplaint_25_LimitsHoldInTheirUnits(t *testing.T) {
	t.Run("episodes are episodes", func(t *testing.T) {
		p := live(t, tasks(3))
		var calls, most atomic.Int64
		hold := make(chan struct{})
		first := sync.OnceFunc(func() { time.AfterFunc(200*time.Millisecond, func() { close(hold) }) })
		p.frozenlake(3, func(q sglangtest.Request) string {
			if len(q.InputIDs) == 1 {
				return "4" // the probe
			}
			for now, was := calls.Add(1), most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			first()
			<-hold // all that may be under way by now is
			calls.Add(-1)
			return "4"
		})
		defer p.group()()
		p.indexes(16)
		if most.Load() != 3 {
			t.Errorf("%d calls at once of 3 episodes", most.Load())
		}
	})
	t.Run("open groups are groups", func(t *testing.T) {
		policy := tasks(3)
		policy.MaxOpenGroups, policy.GroupSize, policy.Oversample, policy.MaxStaleness = 2, 8, 2, new(5)
		later(t, policy, func(p *pipeline) {
			if state, err := bus.StreamState(p.Context(), p.conn, run, subjects.Tasks); err != nil || state.Msgs != 2*(8+2) {
				p.Errorf("%d tasks, %v; want those of 2 groups of 8 and 2 more", state.Msgs, err)
			}
		})
	})
	t.Run("staleness and batches are steps and groups", func(t *testing.T) {
		policy := tasks(9)
		policy.GroupsPerBatch, policy.MaxStaleness = 3, new(2)
		later(t, policy, func(p *pipeline) {
			if state, err := bus.StreamState(p.Context(), p.conn, run, subjects.Tasks); err != nil || state.Msgs != (1+2)*3*4 {
				p.Errorf("%d tasks, %v; want 3 steps' of 3 groups of 4", state.Msgs, err)
			}
		})
	})
}
