package audit

import (
	"context"
	"runtime"
	"slices"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// bundle is what an audit keeps of a ROLLOUTS message: no body.
type bundle struct {
	seq, skipped uint64
	gone         bool  // no message: what is skipped is the end of the stream
	at           int64 // Unix nanoseconds, the server's
	bytes        int
	part         bool
	header       nats.Header // until it is folded
	admission    subjects.Admission
	fault        error  // why nothing of it can be told apart
	items        []item // as Arrivals
}

// item is one trajectory.
type item struct {
	entry subjects.IndexEntry
	err   error  // its entry cannot be read: it counts for nothing
	fault error  // what the inspector says of its body
	task  uint64 // digest of what was played
	used  bool   // in a batch
	gone  bool   // its body is purged, in part at least
}

// inspecting bounds the bodies in memory, bytes.
const inspecting = 64 << 20

// job is a message on its way through a worker.
type job struct {
	msg    *bus.Msg
	data   []byte // whole, if it came in parts
	fault  error
	bundle *bundle
	done   chan struct{}
	weight int64
}

// readRollouts reads and inspects all bundles, on every core, and hands them on
// in order.
func (a *auditor) readRollouts(ctx context.Context, out chan<- *bundle) error {
	g, ctx := errgroup.WithContext(ctx)
	jobs, ordered := make(chan *job, 64), make(chan *job, 256)
	room := semaphore.NewWeighted(inspecting)
	g.Go(func() error {
		defer close(jobs)
		defer close(ordered)
		return a.queueRollouts(ctx, room, jobs, ordered)
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			gate := subjects.NewGate(a.run, a.o.Policy.Key)
			for j := range jobs {
				j.bundle = j.inspect(gate, a.o.Policy.Vocab)
				j.msg, j.data = nil, nil
				close(j.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for j := range ordered {
			select {
			case <-j.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			room.Release(j.weight)
			if err := send(ctx, out, j.bundle); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// queueRollouts reads the stream into jobs.
func (a *auditor) queueRollouts(ctx context.Context, room *semaphore.Weighted, jobs, ordered chan<- *job) error {
	last := a.cut.rollouts.LastSeq
	fetch := bus.NewFetcher(a.conn, a.run.StreamName(subjects.Rollouts), bus.FetchConfig{})
	next, err := a.read(ctx, subjects.Rollouts, &a.cut.rollouts, func(m *bus.Msg) error {
		j := &job{msg: m, data: m.Data, done: make(chan struct{}), weight: min(int64(len(m.Data))+1024, inspecting)}
		if err := room.Acquire(ctx, j.weight); err != nil {
			return err
		}
		if len(m.Header[subjects.HeaderParts]) > 0 {
			j.fault = fetch.Fetch(ctx, []bus.SeqSize{{Seq: m.Seq}}, func(_ uint64, _ nats.Header, data []byte) error { j.data = data; return nil })
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := send(ctx, ordered, j); err != nil {
			return err
		}
		return send(ctx, jobs, j)
	})
	if err == nil && next <= last {
		j := &job{bundle: &bundle{seq: last + 1, skipped: last + 1 - next, gone: true}, done: make(chan struct{})}
		close(j.done)
		err = send(ctx, ordered, j)
	}
	return err
}

// inspect checks a message and its bodies as the bridge's inspector does.
func (j *job) inspect(gate *subjects.Gate, vocab int) *bundle {
	m := j.msg
	b := &bundle{seq: m.Seq, skipped: m.Skipped, at: m.Time.UnixNano(), bytes: len(m.Data), part: bus.IsPart(m.Header), header: m.Header, fault: j.fault}
	b.admission = *gate.Admit(m.Subject, m.Header)
	b.admission.Arrivals = slices.Clone(b.admission.Arrivals)
	if b.admission.Err != nil || b.part {
		return b
	}
	b.items = make([]item, len(b.admission.Arrivals))
	for i, e := range b.admission.Arrivals {
		b.items[i] = item{entry: e.Entry, err: e.Err}
	}
	if b.fault != nil {
		return b
	}
	opened, err := bus.OpenBundle(m.Seq, m.Header, j.data)
	if err != nil {
		b.fault = err
		return b
	}
	for i := range b.items {
		it := &b.items[i]
		if it.fault = opened.Items[i].Err; it.fault != nil {
			continue
		}
		v, err := subjects.Inspect(opened.Body(i), &it.entry, vocab)
		if it.fault = err; err == nil {
			it.task = v.TaskHash()
		}
	}
	return b
}
