package index

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

func TestList_FiltersAndSorts(t *testing.T) {
	m := madeIndex(t, 200, Config{})
	for name, c := range map[string]struct {
		q           Query
		total       int
		first, last string
	}{
		"all, newest first": {Query{Limit: 200}, 200, "t199", "t0"},
		"oldest first":      {Query{Limit: 200, Sort: "oldest"}, 200, "t0", "t199"},
		"dropped":           {Query{Outcomes: []string{"zero_variance"}}, 50, "t199", "t3"},
		"two outcomes":      {Query{Outcomes: []string{"zero_variance", "kept"}}, 200, "t199", "t150"},
		"environment":       {Query{Environments: []string{"maze"}}, 67, "t199", "t52"},
		"unknown one":       {Query{Environments: []string{"moon"}}, 0, "", ""},
		"step":              {Query{Step: between(2, 2), Limit: 100}, 24, "t62", "t32"},
		"version":           {Query{Version: between(2, 9), Limit: 200}, 100, "t199", "t100"},
		"kind":              {Query{Kinds: []string{"eval"}}, 0, "", ""},
		"status":            {Query{Statuses: []string{"failed"}}, 0, "", ""},
		"left over":         {Query{Unused: true}, 25, "t199", "t7"},
		"of that name":      {Query{Text: "t17"}, 1, "t17", "t17"},
		"its trajectory":    {Query{Text: "t17/3/0"}, 1, "t17", "t17"},
		"tokens":            {Query{Sort: "tokens", Limit: 200}, 200, "t199", "t0"},
		"age":               {Query{Sort: "age", Limit: 1}, 200, "t179", "t179"},
	} {
		p := m.list(t, c.q)
		first, last := "", ""
		if n := len(p.Groups); n > 0 {
			first, last = p.Groups[0].Group, p.Groups[n-1].Group
		}
		if *p.Total != c.total || first != c.first || last != c.last {
			t.Errorf("%s: %d, %s to %s; want %d, %s to %s", name, *p.Total, first, last, c.total, c.first, c.last)
		}
	}
	for _, g := range m.list(t, Query{Reward: between(0.5, 1), Sort: "reward", Limit: 200}).Groups {
		if g.RewardMean < 0.5 {
			t.Errorf("%s has reward %v", g.Group, g.RewardMean)
		}
	}
}

func TestList_PagesAreOneList(t *testing.T) {
	m := madeIndex(t, 300, Config{})
	for _, sort := range Sorts {
		seen, cursor := []string{}, ""
		for {
			p := m.list(t, Query{Sort: sort, Limit: 7, Cursor: cursor})
			for _, g := range p.Groups {
				seen = append(seen, g.Group)
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		var want []string
		for _, g := range m.list(t, Query{Sort: sort, Limit: 300}).Groups {
			want = append(want, g.Group)
		}
		if !reflect.DeepEqual(seen, want) {
			t.Errorf("%s: pages have %d groups, the list %d, or another order", sort, len(seen), len(want))
		}
	}
}

func TestGroup_SaysWhatBecameOfEach(t *testing.T) {
	m := madeIndex(t, 4, Config{})
	bad := entry(0, 2, 1, subjects.Failed)
	late := entry(0, 5, 1, subjects.Succeeded)
	m.x.Messages([]bus.HeaderMsg{header(5, "p9", bad, late)})
	g, members, ok := m.x.Group("t0")
	if !ok || g.Outcome != "kept" || g.Step != 1 || g.Size != 8 || g.Arrived != 10 || *g.Staleness != 0 || g.Statuses[subjects.Failed] != 1 || !near(float64(g.Rewards[5]), reward(0, 5)) {
		t.Errorf("group %+v", g)
	}
	if len(members) != 10 || !members[3].Used || members[3].Advantage != -0.5 || members[3].Producer != "p0" || members[3].Step != 1 {
		t.Errorf("members %+v", members)
	}
	if !strings.Contains(members[8].Why, "failed") || !strings.Contains(members[9].Why, "filled by attempt 0") || members[8].Used || members[9].Used {
		t.Errorf("unused %+v", members[8:])
	}
	_, members, _ = m.x.Group("t3")
	if members[0].Used || !strings.Contains(members[0].Why, "nothing to learn") {
		t.Errorf("dropped %+v", members[0])
	}
	if _, ok := m.x.Trajectory("t0/5/1"); !ok {
		t.Error("a second attempt is not found by its id")
	}
	for _, id := range []string{"t0/9/0", "t99/0/0", "t0", "", "//"} {
		if _, ok := m.x.Trajectory(id); ok {
			t.Errorf("%q is found", id)
		}
	}
}

// Headers and ledger are read by two followers; which one is ahead is chance.
func TestFold_TheOrderOfTheStreamsDoesNotMatter(t *testing.T) {
	var msgs []bus.HeaderMsg
	var entries []subjects.Entry
	m := &made{x: New(Config{Run: madeRun})}
	for range 40 {
		m.play(1)
	}
	want := m.list(t, Query{Limit: 100})
	m2 := &made{x: New(Config{Run: madeRun})}
	for range 40 {
		one := made{n: m2.n, seq: m2.seq}
		one.hold()
		m2.n, m2.seq = one.n, one.seq
		msgs, entries = append(msgs, one.msgs...), append(entries, one.e)
	}
	r := rand.New(rand.NewPCG(1, 2))
	i, k := 0, 0
	for i < len(msgs) || k < len(entries) {
		if k == len(entries) || i < len(msgs) && r.IntN(2) == 0 {
			m2.x.Messages(msgs[i : i+1])
			i++
		} else {
			m2.x.Entry(uint64(k+1), &entries[k])
			k++
		}
	}
	got := m2.list(t, Query{Limit: 100})
	for i := range want.Groups {
		want.Groups[i].LedgerSeq, got.Groups[i].LedgerSeq = 0, 0
	}
	if !reflect.DeepEqual(got.Groups, want.Groups) || m2.x.stats().Trajectories != 320 || m2.x.orphans != 0 {
		t.Errorf("got %+v\nwant %+v", got.Groups[0], want.Groups[0])
	}
}

func TestForget_KeepsTheNewest(t *testing.T) {
	m := madeIndex(t, 2000, Config{MaxTrajectories: 8000})
	s := m.x.Stats()
	if s.Trajectories > 8000 || s.Trajectories < 4000 || s.Forgotten == 0 || s.Trajectories+int(s.Forgotten) != 16000 {
		t.Errorf("stats %+v", s)
	}
	if p := m.list(t, Query{Limit: 1}); p.Groups[0].Group != "t1999" || p.Groups[0].Step == 0 && p.Groups[0].Outcome == "kept" {
		t.Errorf("newest %+v", p.Groups[0])
	}
	if _, members, ok := m.x.Group("t1990"); !ok || len(members) != 8 || !members[0].Used {
		t.Errorf("members %+v", members)
	}
	if _, _, ok := m.x.Group("t1"); ok {
		t.Error("the oldest are there still")
	}
}

func TestHostileHeadersAndEntries(t *testing.T) {
	x := New(Config{Run: madeRun})
	e := entry(1, 1, 0, subjects.Succeeded)
	forged := header(1, "p1", e)
	forged.Subject = madeRun.RolloutSubject("p2")
	broken := header(2, "p1", e)
	broken.Header[subjects.HeaderIndex] = []string{"rubbish", e.String(), strings.Repeat("9 ", 100)}
	var many []bus.HeaderMsg
	for i := range longChain + 10 { // of one group
		many = append(many, header(uint64(i+3), "p1", e))
	}
	x.Messages([]bus.HeaderMsg{forged, broken})
	x.Messages(many)
	x.Entry(1, &subjects.Entry{Issued: []subjects.Issue{{Kind: subjects.Train, Count: 1 << 40}, {Kind: subjects.Eval, Count: -5}}, Verdicts: []subjects.Verdict{{Group: "t1", Outcome: "strange", Unused: -1,
		Members: []subjects.Member{{Seq: 1 << 60}, {Seq: 7, Index: -3}, {Seq: 9, Slot: -4, Tokens: -1, Status: "x"}}}}})
	s := x.Stats()
	if s.Trajectories > longChain+1 || s.Refused < 10 {
		t.Errorf("stats %+v", s)
	}
	if g, _, ok := x.Group("t1"); !ok || g.Outcome != "other" {
		t.Errorf("group %+v", g)
	}
}

func TestQuery_RefusesWhatMeansNothing(t *testing.T) {
	for _, q := range []Query{{Sort: "beauty"}, {Outcomes: []string{"lost"}}, {Kinds: []string{"x"}}, {Statuses: []string{"fine"}}, {Text: "?!"}, {Cursor: "x"}, {Cursor: "eCB5"}} {
		if err := q.Validate(); err == nil {
			t.Errorf("%+v is taken", q)
		}
	}
}

// millions is the size that a page must stand: 125 000 groups of eight.
const millions = 125_000

func TestIndex_AMillionTrajectoriesAreSmall(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	m := madeIndex(t, millions, Config{})
	per := float64(heap()-before) / (8 * millions)
	runtime.KeepAlive(m)
	t.Logf("%.1f bytes a trajectory", per)
	if per > 100 {
		t.Errorf("%.1f bytes a trajectory, want at most 100", per)
	}
}

func BenchmarkList(b *testing.B) {
	m := madeIndex(b, millions, Config{})
	for name, q := range map[string]Query{
		"newest": {}, "reward": {Sort: "reward"}, "age": {Sort: "age"}, "filtered": {Outcomes: []string{"zero_variance"}, Environments: []string{"maze"}, Reward: between(0.2, 0.8), Sort: "std"},
		"step": {Step: between(1000, 1010)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m.list(b, q)
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	for b.Loop() {
		madeIndex(b, 1000, Config{})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*8000), "ns/trajectory")
}

func TestSignatures_KeepTheNewestInTheirMemory(t *testing.T) {
	s := signatures{most: 3 * chunkWords * 8}
	words := make([]uint64, 64)
	const rows = 5 * chunkWords / 64
	for i := range uint32(rows) {
		words[0] = uint64(i)
		s.put(i, words)
	}
	if len(s.all) != 3 || s.rows > 3*chunkWords/64 || s.rows < 2*chunkWords/64 || !s.full() {
		t.Errorf("%d chunks of %d rows", len(s.all), s.rows)
	}
	if s.of(0) != nil || s.of(rows) != nil {
		t.Error("the oldest is there, or one that never came")
	}
	for i := uint32(rows - 2*chunkWords/64); i < rows; i++ {
		if w := s.of(i); w == nil || w[0] != uint64(i) {
			t.Fatalf("row %d has %v", i, w)
		}
	}
}

func TestNeedle_NeverMissesAndSeldomErrs(t *testing.T) {
	words := map[uint64]struct{}{}
	wrong := 0
	for n := range 300 {
		text := ""
		for k := range 200 {
			text += " Word" + strconv.Itoa(n*1000+k) + ","
		}
		tr := &subjects.Trajectory{Messages: []subjects.Message{{Content: text + " Größe ÄRGER"}}}
		w := sign(tr, words)
		for _, q := range []string{"word" + strconv.Itoa(n*1000+7), "GRÖSSE größe ärger", `"größe ärger"`} {
			needle := newNeedle(q)
			if _, ok := needle.in(tr); ok && !needle.may(w) {
				t.Fatalf("%q is there and its signature denies it", q)
			}
		}
		for k := range 20 {
			if other := newNeedle("absent" + strconv.Itoa(k)); other.may(w) {
				wrong++
			}
		}
	}
	if wrong > 60 { // 1 in 100
		t.Errorf("%d of 6000 words seem to be there", wrong)
	}
	n := newNeedle(`"größe ärger"`)
	if text, ok := n.in(&subjects.Trajectory{Messages: []subjects.Message{{Content: "die Größe  ärger"}, {Content: "die Größe Ärger"}}}); !ok || !strings.Contains(text, "Größe Ärger") {
		t.Errorf("phrase: %q, %v", text, ok)
	}
}
