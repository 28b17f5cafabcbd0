package trace

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/headrace/headrace/consumers/perfetto"
)

// drawing is the trace before it is written: what each process did.
type drawing struct{ processes map[source]*process }

// process is one of the run's processes, as lines of the trace.
type process struct {
	rows     map[string]*row
	counters map[string][]sample
	about    string // help at its name
	dropped  uint64 // spans it had no room for
}

// row is blocks of one kind; those that overlap get lanes.
type row struct {
	rank   int
	blocks []block
}

// lanes are the row's blocks, those that somebody's lane holds put into each other.
func (r *row) lanes() [][]block {
	held := map[int32][]block{}
	for _, b := range r.blocks {
		held[b.lane] = append(held[b.lane], b)
	}
	all := held[0]
	delete(held, 0)
	for _, n := range slices.Sorted(maps.Keys(held)) {
		all = append(all, nest(held[n])...)
	}
	return spread(all)
}

// sample is a counter's value from a time on.
type sample struct {
	at    int64
	value float64
}

func newDrawing() *drawing { return &drawing{processes: map[source]*process{}} }

func (d *drawing) process(s source) *process {
	p := d.processes[s]
	if p == nil {
		p = &process{rows: map[string]*row{}, counters: map[string][]sample{}}
		d.processes[s] = p
	}
	return p
}

// add draws a block into a row of the process.
func (d *drawing) add(s source, rank int, name string, b block) {
	p := d.process(s)
	if p.rows[name] == nil {
		p.rows[name] = &row{rank: rank}
	}
	p.rows[name].blocks = append(p.rows[name].blocks, b)
}

// The roles that have rows of their own.
const (
	roleGrouper  = "grouper"
	roleProducer = "produce"
	roleEngine   = "engine"
	roleBridge   = "bridge"
	roleTrainer  = "trainer"
)

// roles orders the processes as work flows; others follow.
var roles = []string{roleGrouper, roleProducer, roleEngine, roleBridge, roleTrainer}

func rank(role string) int {
	if i := slices.Index(roles, role); i >= 0 {
		return i
	}
	return len(roles)
}

// titles are the names of roles where the wire's are verbs.
var titles = map[string]string{roleProducer: "producer"}

func (s source) title() string {
	title := s.role
	if t := titles[s.role]; t != "" {
		title = t
	}
	if s.instance != "" {
		title += " " + s.instance
	}
	return title
}

// pen writes a drawing. Tracks are numbered as they come.
type pen struct {
	*perfetto.Writer
	last perfetto.TrackID
}

func (p *pen) track(t perfetto.Track) perfetto.TrackID {
	p.last++
	t.ID = p.last
	p.Track(t)
	return t.ID
}

func (d *drawing) write(w *perfetto.Writer, from int64) {
	p := &pen{Writer: w}
	p.Clock(from)
	order := slices.SortedFunc(maps.Keys(d.processes), func(a, b source) int {
		return cmp.Or(cmp.Compare(rank(a.role), rank(b.role)), cmp.Compare(a.role, b.role), cmp.Compare(a.instance, b.instance))
	})
	for i, s := range order {
		track := p.track(perfetto.Track{Name: s.title(), Description: d.processes[s].about, Rank: i + 1, Ranked: true, Process: &perfetto.Process{PID: i + 1, Name: s.title()}})
		d.processes[s].write(p, track)
	}
}

func (r *process) write(p *pen, parent perfetto.TrackID) {
	names := slices.SortedFunc(maps.Keys(r.rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.rows[a].rank, r.rows[b].rank), cmp.Compare(a, b))
	})
	place := 0
	for _, name := range names {
		lanes := r.rows[name].lanes()
		for i, lane := range lanes {
			place++
			title := name
			if len(lanes) > 1 {
				title += " " + strconv.Itoa(i+1)
			}
			p.blocks(p.track(perfetto.Track{Parent: parent, Name: title, Rank: place}), lane)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.counters)) {
		place++
		track := p.track(perfetto.Track{Parent: parent, Name: name, Rank: place, Counter: &perfetto.Counter{}})
		for _, s := range r.counters[name] {
			p.Event(perfetto.Event{Kind: perfetto.Count, Track: track, At: s.at, Value: s.value})
		}
	}
}

func (p *pen) blocks(track perfetto.TrackID, blocks []block) {
	for i := range blocks {
		b := &blocks[i]
		if b.detail != nil {
			whole := *b
			whole.detail(&whole)
			b = &whole
		}
		e := perfetto.Event{Kind: perfetto.Begin, Track: track, At: b.start, Name: b.name, Category: b.category, Flows: b.flows, Ends: b.ends, Args: b.args}
		if b.mark {
			e.Kind = perfetto.Instant
			p.Event(e)
			continue
		}
		p.Event(e)
		p.blocks(track, b.inside)
		p.Event(perfetto.Event{Kind: perfetto.End, Track: track, At: b.end})
	}
}
