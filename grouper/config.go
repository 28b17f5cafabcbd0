package grouper

import "time"

// Config says how trajectories become groups and groups batches. The zero
// value of every field is its default; pointers are for fields whose zero
// means something.
type Config struct {
	// Source of the groups: tasks (issued by the grouper from the dataset) or
	// external (a group opens with the first trajectory that names it; no task is issued).
	// Default tasks.
	Source string `yaml:"source" json:"source"`
	// Steps to train; the run ends after this many. 0: until the dataset ends.
	Steps int64 `yaml:"steps" json:"steps"`

	// GroupSize is the number of trajectories of one task that a group closes
	// with. Default 8, at least 2: a group is its own baseline.
	GroupSize int `yaml:"group_size" json:"group_size"`
	// Oversample plays this many slots more than GroupSize; the first GroupSize
	// to finish win and the rest goes unused. Costs its share of the rollouts. Default 0.
	Oversample int `yaml:"oversample" json:"oversample"`
	// MinGroupSize is the fewest trajectories a group may close with when slots
	// failed for good or its deadline passed. Default GroupSize: whole or not at all.
	MinGroupSize int `yaml:"min_group_size" json:"min_group_size"`
	// GroupDeadline closes a group this long after its tasks started to be
	// played: when the first trajectory of it, or of a group issued later, came.
	// With external groups, after it opened. Default 10m.
	GroupDeadline time.Duration `yaml:"group_deadline" json:"group_deadline"`
	// SlotRetries is how often a slot is handed out again when its episode
	// failed, was aborted, was found malformed or ran out of SlotTimeout.
	// Default 2; 0: never.
	SlotRetries *int `yaml:"slot_retries" json:"slot_retries"`
	// SlotTimeout hands a slot out again when nothing came of it for this long,
	// counted as GroupDeadline is, as the slot's next attempt: a producer that
	// holds its lease for ever holds the slot no longer than this. Leases of dead
	// producers come back by themselves, sooner. Default half of GroupDeadline;
	// below it always.
	SlotTimeout time.Duration `yaml:"slot_timeout" json:"slot_timeout"`

	// ZeroVariance is what becomes of a group whose rewards are all equal, which
	// teaches nothing: keep (trained, advantages 0), drop (its place in the
	// pipeline stays empty until the next batch is cut, unless that batch cannot be
	// filled without it: saves rollouts) or refill (another group takes its
	// place at once: the pipeline stays full). Default refill.
	ZeroVariance string `yaml:"zero_variance" json:"zero_variance"`
	// ZeroVarianceTolerance: rewards within this of each other are equal.
	// Default 1e-6: above the rounding noise of 32-bit rewards.
	ZeroVarianceTolerance *float64 `yaml:"zero_variance_tolerance" json:"zero_variance_tolerance"`
	// Overlong is what becomes of a trajectory whose token budget ran out: keep
	// (trained like any other), mask (counts in the baseline, not trained) or
	// drop (leaves its slot empty, without a retry). Default keep.
	Overlong string `yaml:"overlong" json:"overlong"`
	// Advantage estimator over a group: grpo (r-mean)/(std+epsilon), drgrpo
	// r-mean, or rloo (reward less the mean of the others). Default grpo.
	Advantage string `yaml:"advantage" json:"advantage"`
	// StdDDOF is subtracted from the group size in the variance of grpo: 1 or 0. Default 1.
	StdDDOF *int `yaml:"std_ddof" json:"std_ddof"`
	// Epsilon is added to the standard deviation of grpo. Default 1e-6.
	Epsilon float64 `yaml:"epsilon" json:"epsilon"`

	// GroupsPerBatch is the number of groups a step trains on. Default 8,
	// unless TokensPerBatch is set.
	GroupsPerBatch int `yaml:"groups_per_batch" json:"groups_per_batch"`
	// TokensPerBatch instead fills each batch with groups up to this many
	// tokens, never more. It must hold one group at its longest. 0: off.
	TokensPerBatch int `yaml:"tokens_per_batch" json:"tokens_per_batch"`
	// MaxGroups bounds a batch that TokensPerBatch fills, and with it the groups
	// in flight for a step. Default: four times the groups that fit at their longest.
	MaxGroups int `yaml:"max_groups" json:"max_groups"`
	// TrajectoryTokens is the longest a trajectory can get; TokensPerBatch needs it.
	TrajectoryTokens int `yaml:"trajectory_tokens" json:"trajectory_tokens"`
	// Remainder is what becomes of the groups left when the dataset ends, too few
	// for a batch: keep (a last, smaller batch) or drop. Default keep.
	Remainder string `yaml:"remainder" json:"remainder"`

	// MaxStaleness bounds how many optimizer steps a batch's oldest token may be
	// behind the weights it trains. Groups are opened, and batches cut, only so far
	// ahead of the trainer. Default 1; 0: on-policy, producers and trainer take turns.
	MaxStaleness *int `yaml:"max_staleness" json:"max_staleness"`
	// Stale is what becomes of a group beyond MaxStaleness when its batch is
	// cut: drop or keep. Default drop.
	Stale string `yaml:"stale" json:"stale"`
	// Order in which groups are batched: oldest (opened first), freshest
	// (sampled by the newest weights) or in_order (as issued; one slow group holds
	// all later ones until its deadline). Default oldest.
	Order string `yaml:"order" json:"order"`
	// MaxOpenGroups bounds the groups being played, whatever MaxStaleness
	// allows. 0: no other bound.
	MaxOpenGroups int `yaml:"max_open_groups" json:"max_open_groups"`
	// VersionWait is how long after a commit new tasks are held back until an
	// engine serves the new weights, so that they are not sampled by the old ones.
	// It only applies while a version is expected, and engines report. Default 10s.
	VersionWait time.Duration `yaml:"version_wait" json:"version_wait"`
	// Environments is the mix of a run that plays several. Empty: one.
	Environments []Environment `yaml:"environments" json:"environments"`

	// StateBytes puts the core's state into the ledger after so many bytes of
	// trajectories, whatever was decided, so that the log below may be purged. 0: by
	// decisions alone.
	StateBytes int64 `yaml:"-" json:"-"`

	// Evaluation of held-out tasks.
	Evaluation Evaluation `yaml:"evaluation" json:"evaluation"`
	// Inspect decides a group only after the inspector has read its bodies.
	// Default true.
	Inspect *bool `yaml:"inspect" json:"inspect"`
}

// Environment is one environment's part in the mix.
type Environment struct {
	// Name of the environment.
	Name string `yaml:"name" json:"name"`
	// Weight is its part of the groups issued, relative to the others'. Default 1.
	Weight float64 `yaml:"weight" json:"weight"`
	// MinShare is the least part of every batch that is from it, 0 to 1. Default 0.
	MinShare float64 `yaml:"min_share" json:"min_share"`
}

// Evaluation measures the policy on held-out tasks, which are never trained on.
type Evaluation struct {
	// Every is the number of steps between evaluations; there is one after the
	// last step as well. 0: none.
	Every int64 `yaml:"every" json:"every"`
	// Tasks is the number of held-out tasks. Default 64.
	Tasks int `yaml:"tasks" json:"tasks"`
	// Samples is how often each task is played at the recipe's temperature. Default 1.
	Samples int `yaml:"samples" json:"samples"`
	// Greedy plays each task once more at temperature 0. Default true.
	Greedy *bool `yaml:"greedy" json:"greedy"`
	// AtStart evaluates before the first step, too. Default true.
	AtStart *bool `yaml:"at_start" json:"at_start"`
	// Deadline ends a round this long after its first result; what is missing
	// counts as failed. Default: three times group_deadline.
	Deadline time.Duration `yaml:"deadline" json:"deadline"`
}

// The values of the fields that choose.
const (
	SourceTasks    = "tasks"
	SourceExternal = "external"

	PolicyKeep   = "keep"
	PolicyDrop   = "drop"
	PolicyRefill = "refill"
	PolicyMask   = "mask"

	OrderOldest   = "oldest"
	OrderFreshest = "freshest"
	OrderInOrder  = "in_order"

	AdvantageGRPO   = "grpo"
	AdvantageDrGRPO = "drgrpo"
	AdvantageRLOO   = "rloo"
)

func or[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func orPtr[T any](p **T, otherwise T) {
	if *p == nil {
		*p = new(otherwise)
	}
}

// WithDefaults is the configuration with every default in place.
func (c Config) WithDefaults() Config {
	or(&c.Source, SourceTasks)
	or(&c.GroupSize, 8)
	or(&c.MinGroupSize, c.GroupSize)
	or(&c.GroupDeadline, 10*time.Minute)
	orPtr(&c.SlotRetries, 2)
	or(&c.SlotTimeout, c.GroupDeadline/2)
	or(&c.ZeroVariance, PolicyRefill)
	orPtr(&c.ZeroVarianceTolerance, 1e-6)
	or(&c.Overlong, PolicyKeep)
	or(&c.Advantage, AdvantageGRPO)
	orPtr(&c.StdDDOF, 1)
	or(&c.Epsilon, 1e-6)
	if c.TokensPerBatch == 0 {
		or(&c.GroupsPerBatch, 8)
	} else if worst := c.GroupSize * c.TrajectoryTokens; worst > 0 {
		or(&c.MaxGroups, max(1, 4*(c.TokensPerBatch/worst)))
	}
	or(&c.Remainder, PolicyKeep)
	orPtr(&c.MaxStaleness, 1)
	or(&c.Stale, PolicyDrop)
	or(&c.Order, OrderOldest)
	or(&c.VersionWait, 10*time.Second)
	c.Environments = append([]Environment(nil), c.Environments...)
	for i := range c.Environments {
		or(&c.Environments[i].Weight, 1)
	}
	c.Evaluation = c.Evaluation.withDefaults(c.GroupDeadline)
	orPtr(&c.Inspect, true)
	return c
}

func (e Evaluation) withDefaults(groupDeadline time.Duration) Evaluation {
	or(&e.Tasks, 64)
	or(&e.Samples, 1)
	orPtr(&e.Greedy, true)
	orPtr(&e.AtStart, true)
	or(&e.Deadline, 3*groupDeadline)
	return e
}

// Slots is the number of episodes a group plays: the group and its oversampling.
func (c *Config) Slots() int { return c.GroupSize + c.Oversample }

// Episodes is the number of times each held-out task is played in a round.
// The last of them is the greedy one, if there is one.
func (e *Evaluation) Episodes() int {
	if e.Greedy != nil && *e.Greedy {
		return e.Samples + 1
	}
	return e.Samples
}

// BatchTrajectories is the most trajectories a batch can have.
func (c Config) BatchTrajectories() int {
	c = c.WithDefaults()
	return c.batchGroups() * c.GroupSize
}

// batchGroups is the most groups a batch can have.
func (c *Config) batchGroups() int {
	if c.TokensPerBatch > 0 {
		return c.MaxGroups
	}
	return c.GroupsPerBatch
}
