package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// builder lays batches out in slots. It keeps scratch memory and is for one
// goroutine.
type builder struct {
	conn   *bus.Conn
	run    subjects.Run
	writer *layout.Writer
	part   layout.Part
	vocab  int
	bodies *bodies
	fetch  *bus.Fetcher
	stats  *stats

	rows    []layout.Row
	wanted  []bool
	loaded  map[uint64]*bundle // of the batch at hand
	missing []bus.SeqSize
	places  map[uint64][]int // of missing ones: the trajectories that are needed
	fetched int              // bytes of missing ones so far
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// build fills the slot with the builder's part of a batch and returns what BATCH
// says of it. Errors that no retry helps: [*BodyError], [*layout.LengthError],
// [*layout.RowsError].
func (b *builder) build(ctx context.Context, m *manifest, slot []byte) (*feed.Batch, error) {
	begun, start := time.Now(), b.stats.spans.Now()
	forked := b.plan(m)
	if err := b.choose(forked); err != nil {
		return nil, fmt.Errorf("lay out step %d: %w", m.Step, err)
	}
	loading := b.stats.spans.Now()
	if err := b.load(ctx, m); err != nil {
		return nil, err
	}
	b.stats.spans.did(b.stats.spans.load, buildLane(b.part.Rank), loading, m.Step)
	if err := b.link(m); err != nil {
		return nil, err
	}
	f, err := b.writer.Fill(slot, b.rows, b.part)
	if err != nil {
		return nil, fmt.Errorf("lay out step %d: %w", m.Step, err)
	}
	b.settle(m)
	out := b.describe(m, f)
	out.Digest = fmt.Sprintf("%08x", crc32.Checksum(slot[:f.Bytes], castagnoli))
	b.stats.built(f, time.Since(begun))
	b.stats.spans.did(b.stats.spans.build, buildLane(b.part.Rank), start, m.Step)
	return out, nil
}

// plan makes the batch's rows from its manifest, in the order of groups,
// members and segments, without their segments yet.
func (b *builder) plan(m *manifest) (forked bool) {
	b.rows, b.wanted = b.rows[:0], b.wanted[:0]
	for g := range m.Groups {
		for k := range m.Groups[g].Members {
			t := &m.Groups[g].Members[k]
			r := layout.Row{Tokens: t.Tokens, Advantage: float32(t.Advantage), Reward: float32(t.Reward), Group: int32(g), Masked: t.Masked}
			if t.Segments != 1 {
				r.Tokens, forked = t.Longest, true
			}
			for range t.Segments {
				b.rows, b.wanted = append(b.rows, r), append(b.wanted, true)
			}
		}
	}
	return forked
}

// choose marks the rows whose bodies this part needs.
func (b *builder) choose(forked bool) error {
	cfg := b.writer.Config()
	if b.part.World <= 1 || cfg.NeedsBodies(forked) {
		return nil
	}
	return b.writer.Wanted(b.rows, b.part, b.wanted)
}

// members calls fn for each member of which a row is wanted, with the index of
// its first row.
func (b *builder) members(m *manifest, fn func(t *subjects.Member, g, row int) error) error {
	row := 0
	for g := range m.Groups {
		for k := range m.Groups[g].Members {
			t := &m.Groups[g].Members[k]
			for i := range t.Segments {
				if b.wanted[row+i] {
					if err := fn(t, g, row); err != nil {
						return err
					}
					break
				}
			}
			row += t.Segments
		}
	}
	return nil
}

// fetchAttempts is how often a body that arrives damaged is read again: another
// replica may have it whole.
const fetchAttempts = 3

// load gets the bundles of the batch, from the cache or the log.
func (b *builder) load(ctx context.Context, m *manifest) error {
	clear(b.loaded)
	b.missing, b.places = b.missing[:0], map[uint64][]int{}
	sizes := map[uint64]int{} // of missing ones, as far as their members tell
	_ = b.members(m, func(t *subjects.Member, _, _ int) error {
		if _, asked := b.loaded[t.Seq]; !asked {
			if b.loaded[t.Seq] = b.bodies.get(t.Seq); b.loaded[t.Seq] == nil {
				b.missing = append(b.missing, bus.SeqSize{Seq: t.Seq})
			}
		}
		if b.loaded[t.Seq] == nil {
			b.places[t.Seq] = append(b.places[t.Seq], t.Index)
			sizes[t.Seq] = max(sizes[t.Seq], t.Offset+t.Length)
		}
		return nil
	})
	for i := range b.missing {
		b.missing[i].Size = sizes[b.missing[i].Seq]
	}
	for attempt := 1; len(b.missing) > 0; attempt++ {
		if err := b.read(ctx); err != nil {
			return b.blame(m, err)
		}
		if err := b.damaged(m); err == nil {
			return nil
		} else if attempt == fetchAttempts {
			return err
		}
	}
	return nil
}

// read fetches the missing bundles. What is beyond a quarter of the cache would
// push everything else out of it: of that only the segments are kept, and those no
// longer than the batch is built. So a batch takes about what its slot does,
// whatever its bundles hold beside.
func (b *builder) read(ctx context.Context) error {
	b.fetched = 0
	return b.fetch.Fetch(ctx, b.missing, func(seq uint64, hdr nats.Header, data []byte) error {
		b.stats.fetchedBytes.Add(int64(len(data)))
		opened, err := bus.OpenBundle(seq, hdr, data)
		if err != nil {
			opened = &bus.Bundle{Seq: seq, Data: data} // its members are then not found, and named
		}
		whole := newBundle(opened)
		if b.fetched += len(data); b.fetched > b.bodies.limit/4 {
			whole.strip(b.places[seq], b.vocab)
		}
		b.loaded[seq] = whole
		return nil
	})
}

// damaged validates what was fetched, keeps it if it is whole and returns the
// first fault otherwise.
func (b *builder) damaged(m *manifest) error {
	fetched := map[uint64]bool{}
	for _, s := range b.missing {
		fetched[s.Seq] = true
	}
	err := b.members(m, func(t *subjects.Member, _, _ int) error {
		if !fetched[t.Seq] {
			return nil
		}
		_, err := b.loaded[t.Seq].view(t.Index, b.vocab)
		return b.fault(m, t, err)
	})
	if err == nil {
		for seq := range fetched {
			if !b.loaded[seq].lean {
				b.bodies.put(b.loaded[seq])
			}
		}
	}
	return err
}

func (b *builder) fault(m *manifest, t *subjects.Member, err error) error {
	if err == nil {
		return nil
	}
	return &BodyError{Step: m.Step, Seq: t.Seq, Index: t.Index, Reason: err}
}

// blame names the first member that a fetch did not find.
func (b *builder) blame(m *manifest, err error) error {
	var gone *bus.MissingError
	if !errors.As(err, &gone) || len(gone.Seqs) == 0 {
		return fmt.Errorf("fetch bodies of step %d: %w", m.Step, err)
	}
	return b.members(m, func(t *subjects.Member, _, _ int) error {
		if t.Seq == gone.Seqs[0] {
			return b.fault(m, t, fmt.Errorf("not in the log, purged below a checkpoint or lost: %w", gone))
		}
		return nil
	})
}

// link gives every wanted row its segment, once the body is what the manifest says.
func (b *builder) link(m *manifest) error {
	return b.members(m, func(t *subjects.Member, g, row int) error {
		held := b.loaded[t.Seq]
		v, err := held.view(t.Index, b.vocab)
		if err == nil {
			err = matches(t, m.Groups[g].Group, &held.Items[t.Index].Entry, v)
		}
		if err != nil {
			return b.fault(m, t, err)
		}
		for i := range v.Segments {
			b.rows[row+i].Segment, b.rows[row+i].Tokens = &v.Segments[i], v.Segments[i].Len()
		}
		b.stats.usedBytes.Add(int64(t.Length))
		return nil
	})
}

// matches wants the body to be the one that was grouped.
func matches(t *subjects.Member, g subjects.GroupID, e *subjects.IndexEntry, v *subjects.BodyView) error {
	if e.Group != g || e.Slot != t.Slot || e.Attempt != t.Attempt || e.Checksum != t.Checksum || len(v.Segments) != t.Segments {
		return fmt.Errorf("%w: the ledger has %s with checksum %x and %d segments there, the log %s with %x and %d", subjects.ErrMalformed,
			subjects.TrajectoryID(g, t.Slot, t.Attempt), t.Checksum, t.Segments, e.ID(), e.Checksum, len(v.Segments))
	}
	return nil
}

func (b *builder) settle(m *manifest) {
	for g := range m.Groups {
		for k := range m.Groups[g].Members {
			b.bodies.settle(m.Groups[g].Members[k].Seq)
		}
	}
	clear(b.loaded)
}

func (b *builder) describe(m *manifest, f layout.Filled) *feed.Batch {
	out := &feed.Batch{
		Step: m.Step, LedgerSeq: m.seq, Bytes: f.Bytes, Layout: b.writer.Config().Layout, Arrays: f.Arrays,
		Rows: f.Rows, Tokens: f.Tokens, Overflowed: f.Overflowed, Groups: []feed.Group{},
		Staleness: feed.Staleness{Mean: m.StalenessMean, Max: m.StalenessMax}, RewardMean: m.RewardMean,
	}
	first, end := f.First, f.First+f.Rows
	if out.Layout == layout.Packed {
		first, end = 0, len(b.rows)
	}
	row := 0
	for g := range m.Groups {
		from, sum := row, 0.0
		for k := range m.Groups[g].Members {
			row += m.Groups[g].Members[k].Segments
			sum += m.Groups[g].Members[k].Reward
		}
		if lo, hi := max(from, first), min(row, end); lo < hi {
			mean := sum / float64(len(m.Groups[g].Members))
			out.Groups = append(out.Groups, feed.Group{Group: m.Groups[g].Group, Rows: [2]int{lo - first, hi - lo}, RewardMean: mean})
		}
	}
	return out
}
