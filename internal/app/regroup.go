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
// changed groups are listed. With to, a new run gets the rollouts and what the
// policy makes of them, to train from.
func Regroup(ctx context.Context, s Source, run, to subjects.Run, policy string, keep int) (*regroup.Report, error) {
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
	if to == "" {
		return regroup.Run(ctx, conn, run, o)
	}
	if err := to.Validate(); err != nil {
		return nil, err
	}
	r, err := openRecording(ctx, conn, run, s.Log)
	if err != nil {
		return nil, err
	}
	var ledger []*subjects.Entry
	o.Each = func(e *subjects.Entry) error { ledger = append(ledger, e); return nil }
	report, err := regroup.Run(ctx, conn, run, o)
	if err == nil {
		err = r.regroup(o.Policy, ledger)
	}
	if err == nil {
		_, err = s.copyOf(ctx, r, to)
	}
	return report, err
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
