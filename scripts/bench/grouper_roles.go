package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// folded is what the grouper's roles report.
type folded struct {
	Seconds      float64 `json:"seconds"`
	Trajectories int     `json:"trajectories"`
	GroupBytes   float64 `json:"group_bytes"` // an open group's memory

	cpu time.Duration // of all processes
}

func (f folded) rate() float64 { return float64(f.Trajectories) / f.Seconds }

// prefill makes the streams and publishes the whole job.
func prefill(ctx context.Context, j job, p *parent) error {
	conn, err := j.connect(ctx, "p0")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // everything is acknowledged
	if err := bus.EnsureStreams(ctx, conn, benchRun, subjects.StreamOptions{}); err != nil {
		return err
	}
	pub := bus.NewPublisher(conn, bus.PublisherConfig{Run: benchRun, Producer: "p0", Log: logger()})
	j.Producers, j.Index = 1, 0
	if err := j.produceAll(ctx, pub, newSample(j.Length, "p0"), &admission{groups: j.Groups}, nil); err != nil {
		return err
	}
	if err := p.say(none{}); err != nil {
		return err
	}
	<-p.gone
	return nil
}

// groupAlone is the grouper on a stream that is full already, until the last
// batch is in the ledger.
func groupAlone(ctx context.Context, j job, p *parent) error {
	conn, err := j.connect(ctx, "grouper")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the figures are out
	if err := p.ready(none{}); err != nil {
		return err
	}
	stop := j.profile("group")
	begun := time.Now()
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return j.group(ctx, conn, false) })
	work.Go(func() error {
		done, err := j.awaitBatches(ctx, conn)
		if err != nil {
			return err
		}
		stop()
		if err := p.say(folded{Seconds: done.Sub(begun).Seconds(), Trajectories: j.Groups * groupSize}); err != nil {
			return err
		}
		<-p.gone
		return nil
	})
	if err := work.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// awaitBatches waits until the ledger holds the last batch, and says since when: it
// looks 50 times a second how far the ledger is, and at its newest entry, which may
// be large, once it grows no more.
func (j job) awaitBatches(ctx context.Context, conn *bus.Conn) (at time.Time, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for seen := uint64(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return at, ctx.Err()
		}
		state, err := bus.StreamState(ctx, conn, benchRun, subjects.Ledger)
		if err != nil {
			return at, err
		}
		if state.LastSeq > seen || seen == 0 {
			seen = state.LastSeq
			continue
		}
		m, err := bus.Last(ctx, conn, benchRun.StreamName(subjects.Ledger), benchRun.LedgerSubject())
		if err != nil {
			return at, err
		}
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return at, err
		}
		if n := len(e.Batches); n > 0 && int(e.Batches[n-1].Step) == j.batches() {
			return m.Time, nil
		}
	}
}

// groupCore is the grouper's core alone: index entries parsed, folded and decided
// on, ledger entries encoded; then the memory of groups that stay open.
func groupCore(_ context.Context, j job, p *parent) error {
	headers := j.headers()
	if err := p.ready(none{}); err != nil {
		return err
	}
	c, err := grouper.New(j.grouping(false), grouper.Supply{Train: []uint64{0}})
	if err != nil {
		return err
	}
	begun := time.Now()
	for seq, bundle := range headers {
		if err := fold(c, uint64(seq+1), bundle); err != nil {
			return err
		}
		for e := c.Decide(int64(seq + 1)); e != nil; e = c.Decide(int64(seq + 1)) {
			if _, err := subjects.EncodeMessage(e); err != nil {
				return err
			}
		}
	}
	took := time.Since(begun)
	if got := c.Stats().Trained; got != uint64(j.Groups*groupSize) {
		return fmt.Errorf("%d trajectories in batches, want %d", got, j.Groups*groupSize)
	}
	size, err := j.openGroups()
	if err != nil {
		return err
	}
	if err := p.say(folded{Seconds: took.Seconds(), Trajectories: j.Groups * groupSize, GroupBytes: size}); err != nil {
		return err
	}
	<-p.gone
	return nil
}

func fold(c *grouper.Core, seq uint64, bundle []string) error {
	for i, text := range bundle {
		e, err := subjects.ParseIndex(text)
		if err != nil {
			return err
		}
		c.Rollout(subjects.Address{Seq: seq, Index: i}, int64(seq), &e)
	}
	c.Folded(seq)
	return nil
}

// headers are the index entries of the job's bundles.
func (j job) headers() (bundles [][]string) {
	count, body := bundleShape(j.Length)
	s := newSample(j.Length, "p0")
	for n := range j.Groups * groupSize {
		if n%count == 0 {
			bundles = append(bundles, nil)
		}
		e := s.trajectory(n/groupSize, n%groupSize).Index()
		e.Offset, e.Length, e.Checksum = n%count*body, body, uint32(n)*2654435761
		b := &bundles[len(bundles)-1]
		*b = append(*b, e.String())
	}
	return bundles
}

// openGroups is the heap that a group takes which lacks its last trajectory, bytes.
func (j job) openGroups() (float64, error) {
	const groups = 20000
	c, err := grouper.New(j.grouping(false), grouper.Supply{Train: []uint64{0}})
	if err != nil {
		return 0, err
	}
	s := newSample(8, "p0")
	before := heap()
	for g := range groups {
		for slot := range groupSize - 1 {
			e := s.trajectory(g, slot).Index()
			if err := fold(c, uint64(g*groupSize+slot+1), []string{e.String()}); err != nil {
				return 0, err
			}
		}
	}
	after := heap()
	if open := c.View(0).Open; open != groups {
		return 0, fmt.Errorf("%d groups open, want %d", open, groups)
	}
	return float64(after-before) / groups, nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
