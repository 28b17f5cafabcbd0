package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/subjects"
)

// ErrDiscrepancies says that a check found something.
var ErrDiscrepancies = errors.New("the audit found discrepancies")

// Audit audits a run where it is: on a bus, or in its folder, stopped or live.
// The report comes with an ErrDiscrepancies when there are some.
func Audit(ctx context.Context, s Source, run subjects.Run, o audit.Options) (*audit.Report, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := audit.Run(ctx, conn, run, o)
	if err == nil && !r.OK {
		err = fmt.Errorf("run %s: %w: %s", run, ErrDiscrepancies, r.Verdict)
	}
	return r, err
}
