package advise

import (
	"cmp"
	"slices"

	"github.com/headrace/headrace/consumers/board"
)

// What an advice is about.
const (
	Stall         = "stall" // the watchdog's word comes first
	NotEnoughData = "not_enough_data"
	Balanced      = "balanced"

	EngineBound      = "engine_bound"
	EnvironmentBound = "environment_bound"
	TrainerBound     = "trainer_bound"
	LongTail         = "long_tail"
	Staleness        = "staleness"
	ZeroVariance     = "zero_variance"
	PrefixCache      = "prefix_cache"
	Recompiles       = "recompiles"
	SmallBatches     = "small_batches"
)

// Codes lists every code, in the order of the documentation.
func Codes() []string {
	return []string{EngineBound, EnvironmentBound, TrainerBound, LongTail, Staleness, ZeroVariance, PrefixCache, Recompiles, SmallBatches,
		Balanced, NotEnoughData, Stall}
}

// finding is an advice and how much it weighs: about the part of the trainer's
// time that is lost to what it is about.
type finding struct {
	board.Advice
	weight float64
}

// rules look at the facts, each for one thing; nil: that is not it.
var rules = []func(*facts) *finding{
	recompiles, trainerBound, turns, staleGroups, longTail, zeroVariance, prefixCache, smallBatches, environmentBound, engineBound, balanced,
}

// Rules says what limits the run: the first is what limits it most. There is
// always at least one.
func Rules(v *board.View) []board.Advice {
	var out []board.Advice
	if s := v.State.Stall; s != nil {
		out = append(out, stalled(v.State, s))
	}
	f, ok := look(v)
	if !ok {
		if len(out) > 0 {
			return out
		}
		return []board.Advice{notEnough(v)}
	}
	var found []*finding
	for _, rule := range rules {
		if x := rule(f); x != nil {
			found = append(found, x)
		}
	}
	slices.SortStableFunc(found, func(a, b *finding) int { return cmp.Compare(b.weight, a.weight) })
	for _, x := range found {
		if !slices.ContainsFunc(out, func(a board.Advice) bool { return a.Code == x.Code }) {
			out = append(out, x.Advice)
		}
	}
	if len(out) == 0 {
		out = append(out, unclear(f))
	}
	return out
}
