package index

import (
	"math"
	"sync"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Config configures an [Index].
type Config struct {
	Run subjects.Run
	// Key is the secret of the run's lease tokens. Without it, as a viewer's
	// credential may not read it, tokens are not checked: a forged trajectory
	// then stands among those that arrived and were not used. Members are the
	// ledger's word in any case.
	Key []byte
	// GroupSize is the recipe's; 0: as the trajectories say. Environment is the only
	// one it plays, of groups of which nothing has come yet.
	GroupSize   int
	Environment string
	// Environments is how many the recipe has: they take turns in the numbers of
	// groups. 0 is one.
	Environments int
	// MaxTrajectories bounds what is known; beyond it the oldest quarter is
	// forgotten. Default 2 million, 44 bytes each.
	MaxTrajectories int
	// TextBytes bounds the signatures. Default 80 MiB.
	TextBytes int
	// TextRate bounds how fast bodies are read for them, bytes a second. Default 48 MiB.
	TextRate int
}

func (c *Config) withDefaults() {
	if c.MaxTrajectories <= 0 {
		c.MaxTrajectories = 2_000_000
	}
	if c.TextBytes <= 0 {
		c.TextBytes = 80 << 20
	}
	if c.TextRate <= 0 {
		c.TextRate = 48 << 20
	}
}

// message is where the rows of a ROLLOUTS message begin.
type message struct {
	seq, size, row uint32
	before         uint32 // rows of all messages before it
}

// Index is what is known of a run's groups. Its methods may be called by many
// goroutines.
type Index struct {
	cfg  Config
	gate *subjects.Gate // of the goroutine that folds ROLLOUTS

	front front

	mu           sync.RWMutex
	rows         blocks[row]
	messages     []message // by sequence
	groups       []group
	by           map[string]uint32
	environments names
	producers    names
	rounds       map[int32]bool // evaluations that are done
	signs        signatures
	low, high    uint32 // bodies of the messages in [low, high) are read
	epoch        int    // counts how often rows were forgotten

	rollouts, ledger uint64 // the last sequences folded
	target           uint64 // the last sequence of ROLLOUTS when it was last looked at
	seen             uint64 // messages of ROLLOUTS
	left             uint64 // messages of ROLLOUTS that were still to be read then
	purged           uint64 // sequences below are purged
	caughtUp         bool   // once, with what there was then
	recent           *Index // of the log's end, until then
	around           *Index // of the group that was asked for last, until then
	of               string // the group it is around
	refused          uint64 // trajectories that count for nothing
	headed           int    // rows whose headers were seen
	orphans          int    // rows that only the ledger knows
	dead             int
	forgotten        uint64
}

const mostGroups = 1 << 19

// New is an index of nothing yet.
func New(cfg Config) *Index {
	cfg.withDefaults()
	x := &Index{cfg: cfg, gate: subjects.NewGate(cfg.Run, cfg.Key), by: map[string]uint32{}, environments: newNames(1 << 12), producers: newNames(1 << 16),
		rounds: map[int32]bool{}}
	x.signs.most = cfg.TextBytes
	return x
}

// find gives the group of an id its place; made if there is none.
func (x *Index) find(id string) uint32 {
	if i, ok := x.by[id]; ok {
		return i
	}
	i := uint32(len(x.groups))
	id = string([]byte(id)) // not the header it is cut from
	x.groups = append(x.groups, group{id: id, minVersion: -1, maxVersion: -1, mean: float32(math.NaN()), std: float32(math.NaN())})
	x.by[id] = i
	return i
}

// link adds a row to its group.
func (x *Index) link(r row) {
	g := &x.groups[r.group]
	i := x.rows.add(r) + 1
	if g.first == 0 {
		g.first = i
	} else {
		x.rows.at(g.last - 1).next = i
	}
	g.last = i
	g.arrived++
}

// Messages folds headers of ROLLOUTS in, in the order of the log. One goroutine
// may call it at a time.
func (x *Index) Messages(msgs []bus.HeaderMsg) {
	x.mu.Lock()
	defer x.mu.Unlock()
	touched := map[uint32]bool{}
	for i := range msgs {
		x.message(&msgs[i], touched)
	}
	for g := range touched {
		x.sum(&x.groups[g])
	}
	for before := -1; x.rows.n != before && (x.rows.n > x.cfg.MaxTrajectories || len(x.groups) > mostGroups); {
		before = x.rows.n
		x.forget()
	}
}

func (x *Index) message(m *bus.HeaderMsg, touched map[uint32]bool) {
	x.rollouts = m.Seq
	x.seen++
	if m.Seq > math.MaxUint32 {
		return
	}
	a := x.gate.Admit(m.Subject, m.Header)
	x.refused += uint64(a.Refused)
	start := uint32(x.rows.n)
	for k := range a.Arrivals {
		if a.Arrivals[k].Err != nil {
			x.refused++
			continue
		}
		touched[x.arrival(&a.Arrivals[k].Entry, uint32(m.Seq), k, a.Producer)] = true
	}
	if n := x.rows.n - int(start); n > 0 {
		x.messages = append(x.messages, message{uint32(m.Seq), uint32(min(m.Size, math.MaxUint32)), start, uint32(x.headed)})
		x.headed += n
	}
}

// arrival adds a trajectory and returns its group.
func (x *Index) arrival(e *subjects.IndexEntry, seq uint32, k int, producer string) uint32 {
	i := x.find(string(e.Group))
	g := &x.groups[i]
	if g.environment == 0 {
		g.environment, g.eval, g.round = x.environments.number(e.Environment), e.Kind == subjects.Eval, clamp(int64(e.Round))
	}
	if g.eval && x.rounds[g.round] {
		g.outcome = evaluated
	}
	if g.arrived >= longChain {
		x.refused++
		return i
	}
	r := row{seq: seq, index: uint16(k), group: i, slot: uint16(min(int(e.Slot), math.MaxUint16)), attempt: uint16(min(int(e.Attempt), math.MaxUint16)),
		status: number(statuses, e.Status), reward: float32(e.Reward), tokens: uint32(e.Tokens), minVersion: int32(e.MinVersion), maxVersion: int32(e.MaxVersion),
		producer: x.producers.number(producer)}
	x.each(g, func(_ uint32, old *row) {
		if old.is(ledgerRow) && !old.is(isDead) && old.seq == seq && old.index == r.index {
			r.flags |= old.flags &^ ledgerRow
			r.advantage = old.advantage
			old.flags = isDead | ledgerRow
			g.arrived--
			x.dead++
			x.orphans--
		}
	})
	x.link(r)
	return i
}

func clamp(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// Stats says how much is known.
type Stats struct {
	// Trajectories that are known, Of about so many there are.
	Trajectories int `json:"trajectories"`
	Of           int `json:"of"`
	// Text counts those whose words are known, of TextOf whose bodies are there.
	Text   int `json:"text"`
	TextOf int `json:"text_of"`
	// Purged counts those whose bodies are gone, Refused those that count for
	// nothing, Forgotten those that there was no room for.
	Purged    int    `json:"purged"`
	Refused   uint64 `json:"refused"`
	Forgotten uint64 `json:"forgotten"`
	// Tokens: lease tokens were checked.
	Tokens bool `json:"tokens_checked"`
}

// Stats says how much is known now.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.stats()
}

func (x *Index) stats() Stats {
	n := x.rows.n - x.dead
	s := Stats{Trajectories: n, Of: n, Text: x.signs.rows, Refused: x.refused, Forgotten: x.forgotten, Tokens: x.gate.Tokens()}
	if x.rollouts < x.target && x.seen > 0 {
		s.Of += int(float64(n) / float64(x.seen) * float64(x.left-min(x.left, x.seen)))
	}
	if !x.caughtUp {
		s.Of = max(s.Of, n+1, int(min(x.left, math.MaxInt32))) // a message has one at least
	}
	s.TextOf = n - x.gone()
	s.Purged = n - s.TextOf
	s.Text = min(s.Text, s.TextOf)
	return s
}

// Bytes is about what the index takes in memory.
func (x *Index) Bytes() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	const a, m, g, signed = 44, 16, 180, 8 // of a row, a message, a group with its name, a row's reference
	return len(x.rows.all)*blockRows*a + cap(x.messages)*m + len(x.groups)*g + x.signs.refs.n*signed + len(x.signs.all)*chunkWords*8
}

// gone counts the rows whose bodies are purged.
func (x *Index) gone() int {
	if x.purged <= 1 {
		return 0
	}
	if k := x.from(uint32(min(x.purged, math.MaxUint32))); k < len(x.messages) {
		return x.orphans + int(x.messages[k].before)
	}
	return x.orphans + x.headed
}
