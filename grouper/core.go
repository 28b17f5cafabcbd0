package grouper

import (
	"fmt"

	"github.com/headrace/headrace/subjects"
)

// Supply is what the dataset can give.
type Supply struct {
	// Train is the number of training groups of each environment of the
	// configuration, in its order (one element without a mix); 0: without end.
	Train []uint64
}

// Core is the grouper's state: what is open, what waits for its batch, how
// far the trainer is. It is not safe for concurrent use. All times are Unix
// nanoseconds.
type Core struct {
	cfg    Config
	supply []uint64
	need   []int // groups of each environment that a batch has at least

	// How far the logs are folded.
	rollouts, weights, inspected uint64
	now                          int64 // of the newest decision
	latest                       int64 // moment of the newest event

	trainer trainer

	lastStep  subjects.Step // newest batch cut
	lastRound subjects.Step // newest evaluation issued, -1 before the first
	ended     string
	ending    *ending // how it is to end, if somebody said so

	order    uint64   // groups and rounds opened so far
	next     []uint64 // next task of each environment
	live     []int    // groups of each environment, open or kept
	spent    int      // groups dropped without replacement since the last batch
	open     map[subjects.GroupID]*group
	kept     []*group // closed, waiting for their batch, by order
	rounds   []*round
	closed   closedSet // external groups only
	rejected map[subjects.Address]struct{}
	stats    Stats

	rejectedMost int // rejections that are kept before they are sorted out

	// What follows from the above, kept for speed.
	ready     map[*group]struct{} // perhaps to be closed
	failed    map[*group]struct{} // perhaps with a slot to hand out again
	starting  []*lifetime         // not yet being played, by order
	watched   []*lifetime         // with a trajectory in the log, by its sequence
	nextTimer int64               // no deadline passes before this
	names     map[string]string   // environments, so that headers are not kept alive

	snapshot uint64 // ledger sequence of the newest entry with a state
	since    int    // items decided since then
	unsaved  int64  // bytes of trajectories that came since then

	early  []early // parts of bodies whose last is still to come
	begins uint64  // first sequence of the message at hand; 0: its own
}

// New is a core at the start of a run. supply has an element for each
// environment of the mix.
func New(cfg Config, supply Supply) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	envs := max(1, len(cfg.Environments))
	if len(supply.Train) != envs {
		return nil, fmt.Errorf("supply of %d environments; the mix has %d", len(supply.Train), envs)
	}
	c := &Core{
		cfg: cfg, supply: supply.Train, need: cfg.minGroups(),
		trainer: newTrainer(), lastRound: -1,
		stats: Stats{Dropped: map[Reason]uint64{}, Outcomes: map[subjects.Outcome]uint64{}},
		next:  make([]uint64, envs), live: make([]int, envs),
		open: map[subjects.GroupID]*group{}, rejected: map[subjects.Address]struct{}{},
		ready: map[*group]struct{}{}, failed: map[*group]struct{}{}, names: map[string]string{},
	}
	c.rejectedMost = rejectedLeast
	if cfg.Evaluation.Every > 0 && !*cfg.Evaluation.AtStart {
		c.lastRound = 0
	}
	return c, nil
}

// Config is the configuration with its defaults.
func (c *Core) Config() Config { return c.cfg }

// Marks are the last sequences of ROLLOUTS and WEIGHTS that were folded.
func (c *Core) Marks() (rollouts, weights uint64) { return c.rollouts, c.weights }

// Ended is why the run ended, empty before.
func (c *Core) Ended() string { return c.ended }

func (c *Core) external() bool { return c.cfg.Source == SourceExternal }

// intern returns s without the header it was cut from.
func (c *Core) intern(s string) string {
	if name, ok := c.names[s]; ok {
		return name
	}
	name := string(append([]byte(nil), s...))
	if len(c.names) < 1024 {
		c.names[name] = name
	}
	return name
}

// final is the last step of the run, once it is known.
func (c *Core) final() (step subjects.Step, known bool) {
	switch {
	case c.cfg.Steps > 0 && int64(c.lastStep) >= c.cfg.Steps:
		return subjects.Step(c.cfg.Steps), true
	case c.drained() && len(c.kept) == 0:
		return c.lastStep, true
	}
	return 0, false
}

// drained reports whether nothing will be opened or closed any more, because
// the dataset has ended.
func (c *Core) drained() bool {
	if c.external() || len(c.open) > 0 {
		return false
	}
	for env := range c.next {
		if !c.exhausted(env) {
			return false
		}
	}
	return true
}

func (c *Core) exhausted(env int) bool { return c.supply[env] > 0 && c.next[env] >= c.supply[env] }
