package grouper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/headrace/headrace/subjects"
)

// message is one of ROLLOUTS; event one of WEIGHTS.
type message struct {
	at      int64
	entries []subjects.IndexEntry
}

type event func(c *Core, seq uint64)

// world is the log a core is folded from, and the core.
type world struct {
	t        testing.TB
	cfg      Config
	supply   Supply
	core     *Core
	now      int64
	skew     int64 // how far the server\'s clock is ahead
	rollouts []message
	weights  []event
	rejected []subjects.Address
	inspect  uint64
	ledger   [][]byte
	out      strings.Builder
}

func newWorld(t testing.TB, cfg Config, supply Supply) *world {
	t.Helper()
	stateEvery = 4 // so that small worlds have states
	core, err := New(cfg, supply)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, cfg: cfg, supply: supply, core: core, now: int64(time.Hour)}
}

func (w *world) publish(entries ...subjects.IndexEntry) {
	w.rollouts = append(w.rollouts, message{w.now + w.skew, entries})
	w.fold(w.core, len(w.rollouts))
}

func (w *world) fold(c *Core, seq int) {
	m := w.rollouts[seq-1]
	for i := range m.entries {
		parsed, err := subjects.ParseIndex(m.entries[i].String())
		if err != nil {
			w.t.Fatal(err)
		}
		c.Rollout(subjects.Address{Seq: uint64(seq), Index: i}, m.at, &parsed)
	}
	c.Folded(uint64(seq))
}

func (w *world) weigh(e event) {
	w.weights = append(w.weights, e)
	e(w.core, uint64(len(w.weights)))
}

func (w *world) reject(a subjects.Address) {
	w.rejected = append(w.rejected, a)
	w.core.Reject(a)
}

func (w *world) inspected(seq uint64) {
	w.inspect = max(w.inspect, seq)
	w.core.Inspected(w.inspect)
}

// decide appends what the core decides and prints it.
func (w *world) decide() {
	for range 1000 {
		e := w.core.Decide(w.now)
		if e == nil {
			return
		}
		b, err := subjects.EncodeMessage(e)
		if err != nil {
			w.t.Fatal(err)
		}
		w.ledger = append(w.ledger, b)
		w.core.Appended(e, uint64(len(w.ledger)))
		w.print(e)
	}
	w.t.Fatal("decides for ever")
}

// crash rebuilds the core from the log and wants it equal to the old one.
func (w *world) crash() {
	w.t.Helper()
	before := w.core.Snapshot()
	w.core = w.rebuild(0)
	if e := w.core.Decide(w.now); e != nil {
		w.t.Fatalf("restored core decides anew: %+v", e)
	}
	if a, b := dump(w.t, before), dump(w.t, w.core.Snapshot()); a != b {
		w.t.Fatalf("restored core differs:\n%s\n%s\n%s", a, b, w.out.String())
	}
}

// purge rebuilds the core from a log that has only what the last entry says is needed.
func (w *world) purge() {
	if records := w.records(); len(records) > 0 {
		w.core = w.rebuild(records[len(records)-1].Entry.Low)
		w.decide()
	}
}

// rebuild restores a core from the log, whose ROLLOUTS are purged below low.
func (w *world) rebuild(low uint64) *Core {
	records := w.records()
	from, weights := 0, uint64(0)
	feed := func(c *Core, upTo uint64) {
		for ; weights < upTo; weights++ {
			w.weights[weights](c, weights+1)
		}
	}
	var r *Replay
	var err error
	if r, err = NewReplay(w.cfg, w.supply, records, func(upTo uint64) { feed(r.Core, upTo) }); err != nil {
		w.t.Fatal(err)
	}
	ro, we := r.Core.Marks()
	from, weights = int(ro), we
	for _, a := range w.rejected {
		r.Core.Reject(a)
	}
	for seq := max(from+1, int(low)); seq <= len(w.rollouts); seq++ {
		if err := r.Before(uint64(seq)); err != nil {
			w.t.Fatal(err)
		}
		w.fold(r.Core, seq)
	}
	if err := r.Done(); err != nil {
		w.t.Fatal(err)
	}
	feed(r.Core, uint64(len(w.weights)))
	r.Core.Inspected(w.inspect)
	return r.Core
}

// records is the ledger from the last entry's snapshot on.
func (w *world) records() (out []Record) {
	for i := len(w.ledger) - 1; i >= 0; i-- {
		e := &subjects.Entry{}
		if err := subjects.DecodeMessage(w.ledger[i], e); err != nil {
			w.t.Fatal(err)
		}
		out = append([]Record{{uint64(i + 1), e}}, out...)
		if last := out[len(out)-1].Entry; len(last.State) > 0 || last.Snapshot == uint64(i+1) {
			break
		}
	}
	return out
}

func dump(t testing.TB, b []byte) string {
	var s state
	if err := msgpack.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	// A rejection that comes after its group closed is known before it in a replay.
	kept := s.Dropped[:0]
	soft := countState{Name: "rejected, duplicate or surplus"}
	for _, n := range s.Dropped {
		switch Reason(n.Name) {
		case ReasonRejected, ReasonDuplicate, ReasonSurplus:
			soft.N += n.N
		default:
			kept = append(kept, n)
		}
	}
	s.Dropped = append(kept, soft)
	return fmt.Sprintf("%+v", s)
}

// print writes an entry as a reviewer reads it.
func (w *world) print(e *subjects.Entry) {
	p := func(format string, args ...any) { fmt.Fprintf(&w.out, "  "+format+"\n", args...) }
	for _, v := range e.Verdicts {
		var m []string
		for _, x := range v.Members {
			m = append(m, fmt.Sprintf("%d.%d@%d/%d%s", x.Slot, x.Attempt, x.Seq, x.Index, masked(x)))
		}
		p("%s %s [%s] unused %d", v.Group, v.Outcome, strings.Join(m, " "), v.Unused)
	}
	for _, v := range e.Evals {
		p("evaluation %d: %d tasks, sampled %.3g, greedy %.3g, failed %d, versions %d-%d", v.Round, v.Tasks, v.Sampled, v.Greedy, v.Failed, v.MinVersion, v.MaxVersion)
	}
	for _, b := range e.Batches {
		p("batch %d: %d rows, %d tokens, longest %d, staleness %.2g/%d, reward %.3g, watermark %d", b.Step, b.Rows, b.Tokens, b.Longest, b.StalenessMean, b.StalenessMax, b.RewardMean, b.Watermark)
		for _, g := range b.Groups {
			var a []string
			for _, x := range g.Members {
				a = append(a, fmt.Sprintf("%+.3g%s", x.Advantage, masked(x)))
			}
			p("  %s %s: %s", g.Group, g.Environment, strings.Join(a, " "))
		}
	}
	for _, r := range e.Retries {
		p("retry %s/%d/%d: %s", r.Group, r.Slot, r.Attempt, r.Reason)
	}
	for _, i := range e.Issued {
		p("issue %s %d+%d round %d at step %d", i.Kind, i.First, i.Count, i.Round, i.Step)
	}
	if e.End != "" {
		p("end: %s", strings.TrimSuffix(e.End+"; "+e.EndText, "; "))
	}
}

func masked(m subjects.Member) string {
	if m.Masked {
		return "m"
	}
	return ""
}
