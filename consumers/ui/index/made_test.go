package index

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const madeRun = subjects.Run("made")

// made is a run of groups of eight, eight trajectories a message, every fourth
// group of which is dropped; the last fifty are open.
type made struct {
	x    *Index
	n    int
	msgs []bus.HeaderMsg
	e    subjects.Entry
	seq  uint64
}

func reward(n, slot int) float64 { return float64((n*7+slot*3)%11) / 10 }

func entry(n, slot, attempt int, status subjects.Status) subjects.IndexEntry {
	return subjects.IndexEntry{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(n)), Slot: subjects.Slot(slot), Attempt: subjects.Attempt(attempt), Status: status,
		Reward: reward(n, slot), Segments: 1, Tokens: 100 + n%300, Longest: 100, Trainable: 50, MinVersion: subjects.PolicyVersion(n / 100), MaxVersion: subjects.PolicyVersion(n/100 + 1),
		Environment: []string{"lake", "maze", "sums"}[n%3]}
}

func header(seq uint64, producer string, entries ...subjects.IndexEntry) bus.HeaderMsg {
	h := nats.Header{subjects.HeaderProducer: {producer}}
	for i := range entries {
		h[subjects.HeaderIndex] = append(h[subjects.HeaderIndex], entries[i].String())
	}
	return bus.HeaderMsg{Seq: seq, Subject: madeRun.RolloutSubject(producer), Header: h, Size: 4000, Time: time.Unix(int64(seq), 0)}
}

func (m *made) play(groups int) {
	for range groups {
		if m.hold(); len(m.msgs) == 512 {
			m.flush()
		}
	}
	m.flush()
}

// hold makes the next group's message and decisions.
func (m *made) hold() {
	n := m.n
	m.n++
	var entries []subjects.IndexEntry
	v := subjects.Verdict{Group: subjects.TrainGroup(uint64(n)), Outcome: subjects.Kept, Opened: int64(n+1) * 1e9, Closed: int64(n+1)*1e9 + int64(n%60)*1e9}
	if n%4 == 3 {
		v.Outcome, v.Unused = subjects.ZeroVariance, n%8/4
	}
	b := subjects.BatchGroup{Group: v.Group, Environment: []string{"lake", "maze", "sums"}[n%3]}
	m.seq++
	for slot := range 8 {
		e := entry(n, slot, 0, subjects.Succeeded)
		entries = append(entries, e)
		v.Members = append(v.Members, subjects.Member{Slot: e.Slot, Seq: m.seq, Index: slot, Status: e.Status, Reward: e.Reward, Tokens: e.Tokens, MinVersion: e.MinVersion, MaxVersion: e.MaxVersion,
			Advantage: float64(slot) - 3.5})
	}
	b.Members = v.Members
	m.msgs = append(m.msgs, header(m.seq, fmt.Sprintf("p%d", n%50), entries...))
	m.e.Verdicts = append(m.e.Verdicts, v)
	if n%4 != 3 {
		m.e.Batches = append(m.e.Batches, subjects.Batch{Step: subjects.Step(n/32 + 1), Groups: []subjects.BatchGroup{b}})
	}
}

func (m *made) flush() {
	m.x.Messages(m.msgs)
	m.x.Entry(m.x.ledger+1, &m.e)
	m.msgs, m.e = m.msgs[:0], subjects.Entry{}
}

func madeIndex(t testing.TB, groups int, cfg Config) *made {
	t.Helper()
	cfg.Run = madeRun
	m := &made{x: New(cfg)}
	m.play(groups)
	return m
}

func between(a, b float64) Range { return Range{Set: true, Min: a, Max: b} }

func (m *made) list(t testing.TB, q Query) *Page {
	t.Helper()
	p, err := m.x.List(t.Context(), &q, nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-5 }
