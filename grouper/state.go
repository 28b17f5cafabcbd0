package grouper

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/headrace/headrace/subjects"
)

// stateVersion is the version of the state's layout. A core reads its own
// only; an older state is replaced by a replay from further back.
const stateVersion = 1

// maxState bounds the bytes of a state in an entry; a larger one is left out
// and a restart replays from further back.
const maxState = 512 << 10

type state struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	V                         int
	Rollouts, Weights         uint64
	Now                       int64
	Incarnation               int
	Committed                 subjects.Step
	CommitAt                  int64
	Announced, Served         subjects.PolicyVersion
	Gap                       int64
	LastStep, LastRound       subjects.Step
	Ended                     string
	Order                     uint64
	Next                      []uint64
	Spent                     int
	Closed                    []uint64
	Produced, Trained, Unused uint64
	Dropped                   []countState // by name
	Outcomes                  []countState // by name
	Groups                    []groupState // open ones have slots, or are external; by order
	Rounds                    []roundState
	Early                     []early
}

type countState struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Name string
	N    uint64
}

type lifeState struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Order         uint64
	Opened, Clock int64
	First         uint64
}

type groupState struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Life    lifeState
	Kept    bool
	ID      subjects.GroupID
	Ordinal uint64
	Env     int
	Name    string
	Unused  int
	Slots   []savedSlot
	Members []memberState
	Spares  []memberState
	Came    []arrived
}

type savedSlot struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Issued       int64
	Attempt      int
	State, Cause uint8
	Filled       bool
}

type memberState struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Slot               subjects.Slot
	Attempt            subjects.Attempt
	Seq                uint64
	Index              int
	Offset, Length     int
	Checksum           uint32
	Status             subjects.Status
	Reward             float64
	Segments           int
	Tokens, Longest    int
	MinVersion, MaxVer subjects.PolicyVersion
	Masked             bool
}

type roundState struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Life     lifeState
	Step     subjects.Step
	Episodes []episodeState
	Spares   []episodeState
	Came     []int // episode and attempt, in turn; sorted
}

type episodeState struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Slot     savedSlot
	Episode  int // of a spare
	Seq      uint64
	Index    int
	Attempt  subjects.Attempt // of what came
	Reward   float64
	Min, Max subjects.PolicyVersion
}

// Snapshot is the state as bytes. Equal states give equal bytes.
func (c *Core) Snapshot() []byte {
	t := &c.trainer
	s := state{
		V: stateVersion, Rollouts: c.rollouts, Weights: c.weights, Now: c.now,
		Incarnation: t.incarnation, Committed: t.committed, CommitAt: t.commitAt, Announced: t.announced, Served: t.served, Gap: t.gap,
		LastStep: c.lastStep, LastRound: c.lastRound, Ended: c.ended, Order: c.order, Next: c.next, Spent: c.spent,
		Closed: c.closed.oldestFirst(), Produced: c.stats.Produced, Trained: c.stats.Trained, Unused: c.stats.EvalUnused,
		Dropped: saveCounts(c.stats.Dropped), Outcomes: saveCounts(c.stats.Outcomes), Early: c.early,
	}
	for _, g := range c.open {
		s.Groups = append(s.Groups, g.save(false))
	}
	for _, g := range c.kept {
		s.Groups = append(s.Groups, g.save(true))
	}
	slices.SortFunc(s.Groups, func(a, b groupState) int {
		if a.Life.Order < b.Life.Order {
			return -1
		}
		return 1
	})
	for _, r := range c.rounds {
		s.Rounds = append(s.Rounds, r.save())
	}
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode(&s); err != nil {
		panic(err) // of plain numbers and strings, into memory
	}
	return b.Bytes()
}

func saveCounts[K ~string](m map[K]uint64) []countState {
	out := make([]countState, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] > 0 {
			out = append(out, countState{Name: string(k), N: m[k]})
		}
	}
	return out
}

func (l *lifetime) save() lifeState {
	return lifeState{Order: l.order, Opened: l.opened, Clock: l.clock, First: l.first}
}

func (l lifeState) restore() lifetime {
	return lifetime{order: l.Order, opened: l.Opened, clock: l.Clock, first: l.First}
}

func (s *slot) save() savedSlot {
	return savedSlot{Issued: s.issued, Attempt: int(s.attempt), State: uint8(s.state), Cause: uint8(s.cause), Filled: s.filled}
}

func (s savedSlot) restore() slot {
	return slot{issued: s.Issued, attempt: int16(s.Attempt), state: slotState(s.State), cause: cause(min(int(s.Cause), len(causes)-1)), filled: s.Filled}
}

func (g *group) save(kept bool) groupState {
	s := groupState{Life: g.lifetime.save(), Kept: kept, ID: g.id, Ordinal: g.ordinal, Env: g.env, Name: g.name, Unused: g.unused}
	for i := range g.slots {
		s.Slots = append(s.Slots, g.slots[i].save())
	}
	s.Members, s.Spares, s.Came = saveMembers(g.members), saveMembers(g.spares), g.came
	if kept {
		s.Came = nil
	}
	return s
}

func saveMembers(members []subjects.Member) (out []memberState) {
	for _, m := range members {
		out = append(out, memberState{Slot: m.Slot, Attempt: m.Attempt, Seq: m.Seq, Index: m.Index, Offset: m.Offset,
			Length: m.Length, Checksum: m.Checksum, Status: m.Status, Reward: m.Reward, Segments: m.Segments, Tokens: m.Tokens,
			Longest: m.Longest, MinVersion: m.MinVersion, MaxVer: m.MaxVersion, Masked: m.Masked})
	}
	return out
}

func restoreMembers(saved []memberState) (out []subjects.Member) {
	for _, m := range saved {
		out = append(out, subjects.Member{Slot: m.Slot, Attempt: m.Attempt, Seq: m.Seq, Index: m.Index, Offset: m.Offset,
			Length: m.Length, Checksum: m.Checksum, Status: m.Status, Reward: m.Reward, Segments: m.Segments, Tokens: m.Tokens,
			Longest: m.Longest, MinVersion: m.MinVersion, MaxVersion: m.MaxVer, Masked: m.Masked})
	}
	return out
}

func (r *round) save() roundState {
	s := roundState{Life: r.lifetime.save(), Step: r.step}
	for i := range r.episodes {
		s.Episodes = append(s.Episodes, r.episodes[i].played.save(r.episodes[i].slot.save(), i))
	}
	for i := range r.spares {
		s.Spares = append(s.Spares, r.spares[i].played.save(savedSlot{}, r.spares[i].episode))
	}
	for _, at := range slices.SortedFunc(maps.Keys(r.came), func(a, b tried) int {
		return cmp.Or(cmp.Compare(a.episode, b.episode), cmp.Compare(a.attempt, b.attempt))
	}) {
		s.Came = append(s.Came, at.episode, at.attempt)
	}
	return s
}

func (p *played) save(s savedSlot, episode int) episodeState {
	return episodeState{Slot: s, Episode: episode, Seq: p.at.Seq, Index: p.at.Index, Attempt: p.attempt, Reward: p.reward, Min: p.min, Max: p.max}
}

func (e *episodeState) played() played {
	return played{at: subjects.Address{Seq: e.Seq, Index: e.Index}, attempt: e.Attempt, reward: e.Reward, min: e.Min, max: e.Max}
}

// Restore is the core after the ledger entry with this state, at its sequence.
func Restore(cfg Config, supply Supply, b []byte, seq uint64) (*Core, error) {
	c, err := New(cfg, supply)
	if err != nil {
		return nil, err
	}
	var s state
	if err := subjects.Validate(b); err != nil {
		return nil, fmt.Errorf("decode grouper state: %w", err)
	}
	if err := msgpack.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("decode grouper state: %w", err)
	}
	if s.V != stateVersion || len(s.Next) != len(c.next) {
		return nil, fmt.Errorf("grouper state of version %d with %d environments; this build reads version %d, the recipe has %d",
			s.V, len(s.Next), stateVersion, len(c.next))
	}
	c.rollouts, c.weights, c.now = s.Rollouts, s.Weights, s.Now
	c.trainer = trainer{incarnation: s.Incarnation, committed: s.Committed, commitAt: s.CommitAt, announced: s.Announced, served: s.Served, gap: s.Gap}
	c.lastStep, c.lastRound, c.ended, c.order, c.next, c.spent = s.LastStep, s.LastRound, s.Ended, s.Order, s.Next, s.Spent
	for _, h := range s.Closed {
		c.closed.add(h)
	}
	c.stats.Produced, c.stats.Trained, c.stats.EvalUnused = s.Produced, s.Trained, s.Unused
	for _, n := range s.Dropped {
		c.stats.Dropped[Reason(n.Name)] = n.N
	}
	for _, n := range s.Outcomes {
		c.stats.Outcomes[subjects.Outcome(n.Name)] = n.N
	}
	for i := range s.Groups {
		c.restoreGroup(&s.Groups[i])
	}
	for i := range s.Rounds {
		c.restoreRound(&s.Rounds[i])
	}
	c.snapshot, c.early = seq, s.Early
	c.sortLives()
	return c, nil
}

func (c *Core) restoreGroup(s *groupState) {
	g := &group{lifetime: s.Life.restore(), id: s.ID, ordinal: s.Ordinal, env: min(max(s.Env, 0), len(c.live)-1), name: s.Name, unused: s.Unused}
	g.members, g.spares = restoreMembers(s.Members), restoreMembers(s.Spares)
	c.live[g.env]++
	if s.Kept {
		c.kept = append(c.kept, g)
		return
	}
	for _, sl := range s.Slots {
		g.slots = append(g.slots, sl.restore())
	}
	g.came = s.Came
	g.recount()
	c.failed[g] = struct{}{}
	c.open[g.id] = g
	c.check(g)
}

func (c *Core) restoreRound(s *roundState) {
	r := &round{lifetime: s.Life.restore(), step: s.Step}
	for i := range s.Episodes {
		r.episodes = append(r.episodes, episode{slot: s.Episodes[i].Slot.restore(), played: s.Episodes[i].played()})
	}
	for i := range s.Spares {
		r.spares = append(r.spares, spare{s.Spares[i].Episode, s.Spares[i].played()})
	}
	for i := 0; i+1 < len(s.Came); i += 2 {
		r.comes(s.Came[i], subjects.Attempt(s.Came[i+1]))
	}
	r.recount()
	r.failed = true
	c.rounds = append(c.rounds, r)
}

// sortLives rebuilds the queues of what waits to be played and what holds the watermark.
func (c *Core) sortLives() {
	var all []*lifetime
	for _, g := range c.open {
		all = append(all, &g.lifetime)
	}
	for _, r := range c.rounds {
		all = append(all, &r.lifetime)
	}
	for _, l := range all {
		if l.clock == 0 {
			c.starting = append(c.starting, l)
		}
	}
	for _, g := range c.kept {
		all = append(all, &g.lifetime)
	}
	for _, l := range all {
		if l.first > 0 {
			c.watched = append(c.watched, l)
		}
	}
	slices.SortFunc(c.starting, func(a, b *lifetime) int { return int(a.order) - int(b.order) })
	slices.SortFunc(c.watched, func(a, b *lifetime) int {
		if a.first != b.first {
			return int(a.first) - int(b.first)
		}
		return int(a.order) - int(b.order)
	})
}
