package faults

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

const (
	run   = subjects.Run("faults")
	vocab = 1000
)

// pipeline is a run on a real server: the grouper and the bridge are the real
// ones, producers and trainer are the test.
type pipeline struct {
	testing.TB
	conn *bus.Conn
	cfg  service.Config
}

// external is the policy of a user whose own producers name the groups.
func external() grouper.Config {
	return grouper.Config{Source: grouper.SourceExternal, Steps: 100, GroupSize: 4, GroupsPerBatch: 2, GroupDeadline: time.Minute, MaxStaleness: new(4)}
}

// tasks is the policy of a run whose grouper hands out the slots.
func tasks(steps int64) grouper.Config {
	return grouper.Config{Steps: steps, GroupSize: 4, GroupsPerBatch: 2, GroupDeadline: time.Minute, MaxStaleness: new(1), VersionWait: time.Millisecond}
}

func open(t testing.TB, srv *bus.Server, policy grouper.Config, rows int) *pipeline {
	t.Helper()
	return openOn(t, natstest.Connect(t, srv), policy, rows)
}

func openOn(t testing.TB, conn *bus.Conn, policy grouper.Config, rows int) *pipeline {
	t.Helper()
	p := &pipeline{TB: t, conn: conn}
	if err := bus.EnsureStreams(t.Context(), p.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}); err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Open(dataset.Config{Seeds: dataset.Range{First: 1 << 20, Count: int64(rows)}, Epochs: 1}, 0, 1)
	if rows == 0 {
		data, err = dataset.Open(dataset.Config{}, 0, 1)
	}
	p.must(err)
	p.cfg = service.Config{Conn: p.conn, Run: run, Grouper: policy, Dataset: data, Environment: "lake", Writer: "g",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Standby: 20 * time.Millisecond, Log: zerolog.Nop()}
	return p
}

// live is a run in real time, with everything that a user has.
func live(t *testing.T, policy grouper.Config) *pipeline {
	return open(t, natstest.InProcess(t), policy, 0)
}

// later is a run in fake time: an hour costs nothing. It has no bridge, whose
// sockets the fake clock does not know, and so no inspection.
func later(t *testing.T, policy grouper.Config, fn func(p *pipeline)) {
	synctest.Test(t, func(t *testing.T) {
		policy.Inspect = new(false)
		p := open(t, natstest.InProcess(t), policy, 0)
		stop := p.group()
		p.pass(time.Second)
		fn(p)
		stop()
	})
}

// pass lets fake time pass until everything has settled.
func (p *pipeline) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (p *pipeline) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// patience bounds what a test waits for in real time.
const patience = 30 * time.Second

func (p *pipeline) ctx() context.Context {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	p.Cleanup(cancel)
	return ctx
}

// start runs fn until stop, which waits for it.
func (p *pipeline) start(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(p.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			p.Error(err)
		}
	})
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// group starts the grouper; a run that it ends for a reason is the test's to judge.
func (p *pipeline) group() (stop func()) {
	return p.start(func(ctx context.Context) error {
		err := service.Run(ctx, p.cfg)
		if ended := (*service.Ended)(nil); errors.As(err, &ended) {
			return nil
		}
		return err
	})
}

// bridge starts the bridge, which inspects, and returns its address.
func (p *pipeline) bridge(change func(*trainerbridge.Config)) (address string, stop func()) {
	p.Helper()
	up := make(chan []string, 1)
	cfg := trainerbridge.Config{Conn: p.conn, Run: run, Listen: []string{"unix:" + filepath.Join(p.TempDir(), "f")}, Vocab: vocab, Inspect: true,
		Layout: layout.Config{Buckets: []int{64}, Rows: 8, MaxRows: 64}, Instance: "b", Log: zerolog.Nop(), DrainTimeout: time.Second,
		OnListen: func(a []string) { up <- a }}
	if change != nil {
		change(&cfg)
	}
	stop = p.start(func(ctx context.Context) error { return trainerbridge.Run(ctx, cfg) })
	p.Cleanup(stop)
	select {
	case a := <-up:
		return a[0], stop
	case <-p.ctx().Done():
		p.Fatal("the bridge does not listen")
		return "", nil
	}
}

// dial connects a trainer whose checkpoint holds a step.
func (p *pipeline) dial(address string, checkpoint subjects.Step) *feed.Client {
	p.Helper()
	c, err := feed.Dial(p.ctx(), address, feed.Hello{Client: "test", CheckpointStep: &checkpoint})
	p.must(err)
	p.must(c.Conn().(net.Conn).SetDeadline(time.Now().Add(patience))) // a hang is a failure with a line
	p.Cleanup(func() { _ = c.Abort() })
	return c
}

// whole starts grouper and bridge and connects a trainer.
func (p *pipeline) whole() *feed.Client { return p.wholeWith(nil) }

func (p *pipeline) wholeWith(change func(*trainerbridge.Config)) *feed.Client {
	p.Helper()
	p.Cleanup(p.group())
	address, _ := p.bridge(change)
	return p.dial(address, 0)
}

// train takes a batch and commits it; it returns its groups and their rows.
func (p *pipeline) train(c *feed.Client) (b *feed.Batch, groups []subjects.GroupID) {
	p.Helper()
	b, _, err := c.Next()
	p.must(err)
	for _, g := range b.Groups {
		groups = append(groups, g.Group)
	}
	p.must(c.Release(b))
	p.must(c.Commit(feed.Commit{Step: b.Step, Tokens: int64(b.Tokens)}))
	return b, groups
}

// entries are the ledger's so far.
func (p *pipeline) entries() (out []subjects.Entry) {
	p.Helper()
	state, err := bus.StreamState(p.Context(), p.conn, run, subjects.Ledger)
	p.must(err)
	if state.Msgs == 0 {
		return nil
	}
	done := errors.New("done")
	err = bus.Follow(p.Context(), p.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		p.must(subjects.DecodeMessage(m.Data, &e))
		if out = append(out, e); m.Seq >= state.LastSeq {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		p.Fatal(err)
	}
	return out
}

// verdicts are the outcomes of a group so far.
func (p *pipeline) verdicts(id subjects.GroupID) (out []subjects.Verdict) {
	p.Helper()
	for _, e := range p.entries() {
		for _, v := range e.Verdicts {
			if v.Group == id {
				out = append(out, v)
			}
		}
	}
	return out
}

// batches are the groups of every batch so far.
func (p *pipeline) batches() (out [][]subjects.GroupID) {
	p.Helper()
	for _, e := range p.entries() {
		for _, b := range e.Batches {
			var groups []subjects.GroupID
			for _, g := range b.Groups {
				groups = append(groups, g.Group)
			}
			out = append(out, groups)
		}
	}
	return out
}

// await follows the ledger until an entry is as wanted.
func (p *pipeline) await(what string, ok func(*subjects.Entry) bool) {
	p.Helper()
	done := errors.New("done")
	err := bus.Follow(p.ctx(), p.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		p.must(subjects.DecodeMessage(m.Data, &e))
		if ok(&e) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		p.Fatalf("no %s: %v", what, err)
	}
}

// awaitVerdict waits until a group is closed.
func (p *pipeline) awaitVerdict(id subjects.GroupID) (v subjects.Verdict) {
	p.Helper()
	p.await("verdict on "+string(id), func(e *subjects.Entry) bool {
		for i := range e.Verdicts {
			if e.Verdicts[i].Group == id {
				v = e.Verdicts[i]
				return true
			}
		}
		return false
	})
	return v
}
