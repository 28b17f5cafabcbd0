package grouper

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestValidate_RefusesWithTheFieldAndTheArithmetic(t *testing.T) {
	for name, c := range map[string]struct {
		cfg        Config
		field, msg string
	}{
		"group of one":       {Config{GroupSize: 1}, "group_size", "at least 2"},
		"minimum over size":  {Config{GroupSize: 4, MinGroupSize: 5}, "min_group_size", "2 to group_size (4)"},
		"slots":              {Config{GroupSize: 32000, Oversample: 1000}, "oversample", "32000 + oversample 1000 = 33000"},
		"no deadline":        {Config{GroupDeadline: -1}, "group_deadline", "above 0"},
		"timeout too late":   {Config{SlotTimeout: time.Hour}, "slot_timeout", "not below group_deadline (10m0s)"},
		"tokens, unknown":    {Config{TokensPerBatch: 100}, "trajectory_tokens", "needs the tokens"},
		"tokens, too few":    {Config{TokensPerBatch: 100, TrajectoryTokens: 20}, "tokens_per_batch", "8 x trajectory_tokens 20 = 160"},
		"tokens and groups":  {Config{TokensPerBatch: 1000, TrajectoryTokens: 20, GroupsPerBatch: 1}, "groups_per_batch", "one of the two"},
		"max groups alone":   {Config{MaxGroups: 3}, "max_groups", "only used with tokens_per_batch"},
		"shares do not fit":  {Config{GroupsPerBatch: 3, Environments: []Environment{{Name: "a", MinShare: 0.5}, {Name: "b", MinShare: 0.5}}}, "environments", "2 + 2 = 4"},
		"shares in order":    {Config{Order: OrderInOrder, Environments: []Environment{{Name: "a", MinShare: 0.5}}}, "environments.0.min_share", "in_order"},
		"shares from abroad": {Config{Source: SourceExternal, Environments: []Environment{{Name: "a", MinShare: 0.5}}}, "environments.0.min_share", "wait for ever"},
		"twice":              {Config{Environments: []Environment{{Name: "a"}, {Name: "a"}}}, "environments.1.name", "twice"},
		"policy":             {Config{ZeroVariance: "skip"}, "zero_variance", `"skip"; want keep, drop, refill`},
		"evaluation":         {Config{Source: SourceExternal, Evaluation: Evaluation{Every: 1}}, "evaluation.every", "issues tasks"},
		"staleness":          {Config{MaxStaleness: new(-1)}, "max_staleness", "0 (on-policy)"},
		"ddof":               {Config{StdDDOF: new(2)}, "std_ddof", "1 or 0"},
		"tolerance":          {Config{ZeroVarianceTolerance: new(-1.0)}, "zero_variance_tolerance", "0 on"},
		"retries":            {Config{SlotRetries: new(-1)}, "slot_retries", "0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			var f *FieldError
			if err := c.cfg.Validate(); !errors.As(err, &f) || f.Field != c.field || !strings.Contains(f.Msg, c.msg) {
				t.Errorf("got %v; want %s: ...%s...", err, c.field, c.msg)
			}
		})
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
