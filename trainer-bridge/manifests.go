package trainerbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// manifest is the batch of one step and where the ledger has it.
type manifest struct {
	subjects.Batch
	seq uint64
}

// How many manifests stay decoded, and their members, some 200 bytes each; older
// ones are read again.
const (
	recentSteps   = 64
	recentMembers = 1 << 18
)

// manifests follows LEDGER and finds batches by step. It is safe for
// concurrent use.
type manifests struct {
	conn   *bus.Conn
	run    subjects.Run
	bodies *bodies

	mu      sync.Mutex
	seqs    map[subjects.Step]uint64
	recent  map[subjects.Step]*manifest
	members int                         // of recent
	oldest  subjects.Step               // of recent
	again   map[subjects.Step]*manifest // of the entry that was last read again
	last    subjects.Step               // the highest
	seen    uint64                      // ledger sequence
	low     uint64                      // first ROLLOUTS sequence that a group needs
	folded  uint64                      // ROLLOUTS mark of the newest state
	end     string                      // why the run ended
	endText string
	seenAt  time.Time     // when an entry last came
	changed chan struct{} // closed when any of this changes
}

func newManifests(conn *bus.Conn, run subjects.Run, b *bodies) *manifests {
	return &manifests{conn: conn, run: run, bodies: b, seqs: map[subjects.Step]uint64{},
		recent: map[subjects.Step]*manifest{}, changed: make(chan struct{})}
}

// follow reads the ledger until ctx ends.
func (m *manifests) follow(ctx context.Context) error {
	err := bus.Follow(ctx, m.conn, m.run.StreamName(subjects.Ledger), "", 1, func(msg *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(msg.Data, &e); err != nil {
			return fmt.Errorf("read ledger entry %d: %w", msg.Seq, err)
		}
		m.add(msg.Seq, &e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("follow ledger: %w", err)
	}
	return nil
}

func (m *manifests) add(seq uint64, e *subjects.Entry) {
	m.mu.Lock()
	for i := range e.Batches {
		step := e.Batches[i].Step
		m.seqs[step] = seq
		m.remember(step, &manifest{e.Batches[i], seq})
		m.last = max(m.last, step)
	}
	if e.End != "" {
		m.end, m.endText = e.End, e.EndText
	}
	m.seen, m.seenAt, m.low = seq, time.Now(), e.Low
	if len(e.State) > 0 {
		m.folded = e.Rollouts
	}
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	for i := range e.Verdicts {
		if !e.Verdicts[i].Outcome.Trained() {
			for k := range e.Verdicts[i].Members {
				m.bodies.settle(e.Verdicts[i].Members[k].Seq)
			}
		}
	}
}

// remember keeps a manifest decoded, as far as there is room.
func (m *manifests) remember(step subjects.Step, b *manifest) {
	m.forget(step)
	if len(m.recent) == 0 {
		m.oldest = step
	}
	m.recent[step] = b
	m.members += b.size()
	for m.oldest < step && (len(m.recent) > recentSteps || m.members > recentMembers) {
		m.forget(m.oldest)
		m.oldest++
	}
}

func (m *manifests) forget(step subjects.Step) {
	if b := m.recent[step]; b != nil {
		m.members -= b.size()
		delete(m.recent, step)
	}
}

// size is the number of its members.
func (b *manifest) size() (n int) {
	for i := range b.Groups {
		n += len(b.Groups[i].Members)
	}
	return n
}

// endOfRun is what await returns when no batch of that step will come.
type endOfRun struct {
	reason, text string
	steps        subjects.Step
}

func (e *endOfRun) Error() string { return "run ended: " + e.reason }

// await waits for the batch of a step.
func (m *manifests) await(ctx context.Context, step subjects.Step) (*manifest, error) {
	for {
		m.mu.Lock()
		found, seq, end, changed := cmp.Or(m.recent[step], m.again[step]), m.seqs[step], m.ended(), m.changed
		m.mu.Unlock()
		switch {
		case found != nil:
			return found, nil
		case seq != 0:
			return m.read(ctx, step, seq)
		case end != nil:
			return nil, end
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ended is how the run ended, nil before. The caller holds the lock.
func (m *manifests) ended() *endOfRun {
	if m.end == "" {
		return nil
	}
	return &endOfRun{m.end, m.endText, m.last}
}

// over is how the run ended, if no batch comes after a step.
func (m *manifests) over(step subjects.Step) *endOfRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	if step < m.last {
		return nil
	}
	return m.ended()
}

// heard is when an entry last came.
func (m *manifests) heard() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seenAt
}

// read reads a manifest again that is no longer in memory, and keeps the others
// of its entry, which will be asked for next.
func (m *manifests) read(ctx context.Context, step subjects.Step, seq uint64) (*manifest, error) {
	msg, err := bus.Read(ctx, m.conn, m.run.StreamName(subjects.Ledger), seq)
	if err != nil {
		return nil, fmt.Errorf("read batch of step %d: %w", step, err)
	}
	var e subjects.Entry
	if err := subjects.DecodeMessage(msg.Data, &e); err != nil {
		return nil, fmt.Errorf("read batch of step %d: %w", step, err)
	}
	again := map[subjects.Step]*manifest{}
	for i := range e.Batches {
		again[e.Batches[i].Step] = &manifest{e.Batches[i], seq}
	}
	m.mu.Lock()
	m.again = again
	m.mu.Unlock()
	if found := again[step]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("read batch of step %d: ledger entry %d has none", step, seq)
}

// lastStep is the highest step of the ledger as it is now: it waits until
// everything written so far has been read.
func (m *manifests) lastStep(ctx context.Context) (subjects.Step, error) {
	head, err := bus.Last(ctx, m.conn, m.run.StreamName(subjects.Ledger), m.run.LedgerSubject())
	if errors.Is(err, bus.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for {
		m.mu.Lock()
		seen, last, changed := m.seen, m.last, m.changed
		m.mu.Unlock()
		if seen >= head.Seq {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// progress is the highest step so far.
func (m *manifests) progress() subjects.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// marks are the ROLLOUTS sequences that groups need, and up to which a grouper
// that starts has all in its state.
func (m *manifests) marks() (low, folded uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.low, m.folded
}

// watermark is the lowest ROLLOUTS sequence that the batch of a step or a later
// one needs.
func (m *manifests) watermark(ctx context.Context, step subjects.Step) (uint64, error) {
	if low, _ := m.marks(); step > m.progress() {
		return low, nil
	}
	b, err := m.await(ctx, step)
	if err != nil {
		return 0, err
	}
	return b.Watermark, nil
}
