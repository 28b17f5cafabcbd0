package app

import (
	"context"
	"errors"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/subjects"
)

// Regroup puts a run's rollouts through the grouper under the policy of a file,
// or under its own if there is none, and says what differs. keep is how many
// changed groups are listed.
func Regroup(ctx context.Context, s Source, run subjects.Run, policy string, keep int) (*regroup.Report, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	own, err := audit.PolicyOf(ctx, conn, run)
	if err != nil {
		return nil, err
	}
	o := regroup.Options{Own: own, Policy: own.Grouper, Keep: keep}
	if policy != "" {
		if o.Policy, err = recipe.LoadPolicy(policy, own.Grouper); err != nil {
			return nil, err
		}
	}
	return regroup.Run(ctx, conn, run, o)
}

// ErrDiffer says that two things that were compared are not the same.
var ErrDiffer = errors.New("not the same")

// Diff says where the batches of two runs part, and why.
func Diff(ctx context.Context, s Source, a, b subjects.Run) (*regroup.Difference, error) {
	first, done, err := s.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer done()
	second := first
	if a != b {
		var done func()
		if second, done, err = s.open(ctx, b); err != nil {
			return nil, err
		}
		defer done()
	}
	return regroup.Diff(ctx, regroup.Side{Conn: first, Run: a}, regroup.Side{Conn: second, Run: b})
}
