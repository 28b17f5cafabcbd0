package grouper

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/subjects"
)

// FieldError is a value of the configuration that is not allowed. Field is its
// path in YAML's names, such as "evaluation.every"; Msg is one line that says
// what is allowed and, where values contradict each other, the arithmetic.
type FieldError struct{ Field, Msg string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

// maxSlots bounds the episodes of a group; slots travel as 16-bit numbers.
const maxSlots = math.MaxInt16

// checker keeps the first mistake.
type checker struct{ err *FieldError }

func (k *checker) want(ok bool, field, format string, args ...any) {
	if !ok && k.err == nil {
		k.err = &FieldError{field, fmt.Sprintf(format, args...)}
	}
}

func (k *checker) oneOf(field, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	k.want(false, field, "%q; want %s", value, strings.Join(allowed, ", "))
}

func (k *checker) atLeast(field string, value, least int64) {
	k.want(value >= least, field, "%d; want at least %d", value, least)
}

// Validate reports the first value that is not allowed, as a *FieldError: out
// of range, contradicting another, or making a run that can stand still for
// ever. It looks at the configuration with its defaults.
func (c Config) Validate() error {
	c = c.WithDefaults()
	k := &checker{}
	c.checkChoices(k)
	c.checkGroup(k)
	c.checkBatch(k)
	c.checkMix(k)
	c.checkEvaluation(k)
	if k.err != nil {
		return k.err
	}
	return nil
}

func (c *Config) checkChoices(k *checker) {
	k.oneOf("source", c.Source, SourceTasks, SourceExternal)
	k.oneOf("zero_variance", c.ZeroVariance, PolicyKeep, PolicyDrop, PolicyRefill)
	k.oneOf("overlong", c.Overlong, PolicyKeep, PolicyMask, PolicyDrop)
	k.oneOf("advantage", c.Advantage, AdvantageGRPO, AdvantageDrGRPO, AdvantageRLOO)
	k.oneOf("remainder", c.Remainder, PolicyKeep, PolicyDrop)
	k.oneOf("stale", c.Stale, PolicyDrop, PolicyKeep)
	k.oneOf("order", c.Order, OrderOldest, OrderFreshest, OrderInOrder)
	k.want(*c.StdDDOF == 0 || *c.StdDDOF == 1, "std_ddof", "%d; want 1 or 0", *c.StdDDOF)
	k.want(c.Epsilon > 0 && !math.IsInf(c.Epsilon, 0), "epsilon", "%v; want a number above 0", c.Epsilon)
	tol := *c.ZeroVarianceTolerance
	k.want(tol >= 0 && !math.IsInf(tol, 0), "zero_variance_tolerance", "%v; want a number from 0 on", tol)
}

func (c *Config) checkGroup(k *checker) {
	k.atLeast("steps", c.Steps, 0)
	k.atLeast("group_size", int64(c.GroupSize), 2)
	k.atLeast("oversample", int64(c.Oversample), 0)
	k.want(c.Slots() <= maxSlots, "oversample", "group_size %d + oversample %d = %d slots; want at most %d", c.GroupSize, c.Oversample, c.Slots(), maxSlots)
	k.want(c.MinGroupSize >= 2 && c.MinGroupSize <= c.GroupSize, "min_group_size", "%d; want 2 to group_size (%d)", c.MinGroupSize, c.GroupSize)
	k.want(*c.SlotRetries >= 0 && *c.SlotRetries < math.MaxInt16, "slot_retries", "%d; want 0 or more", *c.SlotRetries)
	k.want(c.GroupDeadline > 0, "group_deadline", "%v; want a duration above 0: without one, a group whose producer hangs is waited for for ever", c.GroupDeadline)
	k.want(c.SlotTimeout > 0 || c.GroupDeadline <= 0, "slot_timeout", "%v; want a duration above 0: without one, a producer that only keeps its lease holds the slot until the group's deadline", c.SlotTimeout)
	k.want(c.SlotTimeout < c.GroupDeadline, "slot_timeout", "%v is not below group_deadline (%v): it could never end a slot", c.SlotTimeout, c.GroupDeadline)
	k.want(c.VersionWait >= 0 && c.VersionWait <= time.Hour, "version_wait", "%v; want 0 to 1h", c.VersionWait)
	k.atLeast("max_open_groups", int64(c.MaxOpenGroups), 0)
	k.want(*c.MaxStaleness >= 0 && *c.MaxStaleness <= 1<<20, "max_staleness", "%d; want 0 (on-policy) or more", *c.MaxStaleness)
}

func (c *Config) checkBatch(k *checker) {
	k.atLeast("groups_per_batch", int64(c.GroupsPerBatch), 0)
	k.atLeast("tokens_per_batch", int64(c.TokensPerBatch), 0)
	k.atLeast("trajectory_tokens", int64(c.TrajectoryTokens), 0)
	if c.TokensPerBatch == 0 {
		k.want(c.MaxGroups == 0, "max_groups", "%d; only used with tokens_per_batch: want groups_per_batch alone", c.MaxGroups)
		return
	}
	k.want(c.GroupsPerBatch == 0, "groups_per_batch", "%d beside tokens_per_batch %d; want one of the two", c.GroupsPerBatch, c.TokensPerBatch)
	k.want(c.TrajectoryTokens > 0, "trajectory_tokens", "missing; tokens_per_batch needs the tokens of the longest possible trajectory")
	worst := c.GroupSize * c.TrajectoryTokens
	k.want(worst <= c.TokensPerBatch, "tokens_per_batch", "%d cannot hold one group at its longest: group_size %d x trajectory_tokens %d = %d; no batch could be cut",
		c.TokensPerBatch, c.GroupSize, c.TrajectoryTokens, worst)
	k.atLeast("max_groups", int64(c.MaxGroups), 1)
}

// minGroups is the number of groups of each environment that every batch has at least.
func (c *Config) minGroups() []int {
	out := make([]int, max(1, len(c.Environments)))
	for i, e := range c.Environments {
		out[i] = int(math.Ceil(e.MinShare*float64(c.GroupsPerBatch) - 1e-9))
	}
	return out
}

func (c *Config) checkMix(k *checker) {
	seen, total := map[string]bool{}, 0
	var sum []string
	for i, e := range c.Environments {
		at := "environments." + strconv.Itoa(i) + "."
		k.want(subjects.ValidToken(e.Name), at+"name", "%q; want 1 to 64 letters, digits, _ or -", e.Name)
		k.want(!seen[e.Name], at+"name", "%q appears twice", e.Name)
		k.want(e.Weight > 0 && !math.IsInf(e.Weight, 0), at+"weight", "%v; want a number above 0", e.Weight)
		k.want(e.MinShare >= 0 && e.MinShare <= 1, at+"min_share", "%v; want 0 to 1", e.MinShare)
		seen[e.Name] = true
		if e.MinShare > 0 && k.err == nil {
			k.want(c.TokensPerBatch == 0, at+"min_share", "%v with tokens_per_batch: shares are of groups_per_batch", e.MinShare)
			k.want(c.Order != OrderInOrder, at+"min_share", "%v with order in_order: what is next in order need not be what is short; use weight", e.MinShare)
			k.want(c.Source == SourceTasks, at+"min_share", "%v with source external: what arrives cannot be chosen; a batch might wait for ever", e.MinShare)
			total += c.minGroups()[i]
			sum = append(sum, strconv.Itoa(c.minGroups()[i]))
		}
	}
	k.want(total <= c.GroupsPerBatch || c.TokensPerBatch > 0, "environments", "minimum shares need %s = %d groups of every batch, groups_per_batch is %d: no batch could be cut",
		strings.Join(sum, " + "), total, c.GroupsPerBatch)
}

func (c *Config) checkEvaluation(k *checker) {
	e := &c.Evaluation
	k.atLeast("evaluation.every", e.Every, 0)
	if e.Every <= 0 {
		return
	}
	k.want(c.Source == SourceTasks, "evaluation.every", "%d with source external: evaluation issues tasks; want 0", e.Every)
	k.atLeast("evaluation.tasks", int64(e.Tasks), 1)
	k.want(e.Deadline > 0, "evaluation.deadline", "%v; want a duration above 0", e.Deadline)
	k.want(e.Samples >= 1 && e.Samples < 1024, "evaluation.samples", "%d; want 1 to 1023", e.Samples)
}
