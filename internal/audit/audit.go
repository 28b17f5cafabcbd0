// Package audit proves from a run's log alone that nothing was lost, trained
// twice or mixed: `headrace audit`.
//
// One idea explains its shape: the ledger is a function of the other streams.
// The streams are read once, side by side, in the order in which the grouper
// folded them; each ledger entry is decided once more by the pure core and must
// come out byte for byte. What the core would not notice of its own input
// (bodies, gaps, counters, the trainer's steps) is checked on the way, and
// nothing is kept that no later entry can name, so a log of any size is read at
// the speed of the disk.
package audit

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Policy is what decisions follow from beside the log.
type Policy struct {
	// Grouper is the recipe's section.
	Grouper grouper.Config
	// Supply is what the dataset can give.
	Supply grouper.Supply
	// Vocab is the number of token ids; 0: not checked.
	Vocab int
	// Key is the run's lease key; nil: entries need no token.
	Key []byte
	// Unknown says why decisions cannot be derived again, if they cannot: a
	// dataset that is not on this machine, a key that may not be read.
	Unknown string
	// Imported: the ledger is what a file says, and not what followed from this log.
	Imported bool
}

// Options configure [Run]; the zero value is good.
type Options struct {
	// Policy of the run. Default: that of the run's record.
	Policy *Policy
	// Keep is how many discrepancies of each check are kept in the report; all
	// are counted. Default 10.
	Keep int
	// Progress, when set, is told about twice a second how far the audit is. It
	// must not block.
	Progress func(Progress)
	// Observer, when set, sees the log as it is folded.
	Observer Observer
}

// Progress is how far an audit is.
type Progress struct {
	// Done and Total are ROLLOUTS messages; Bytes those of the bodies read.
	Done, Total uint64
	Bytes       int64
	Elapsed     time.Duration
}

const (
	defaultKeep   = 10
	progressEvery = 500 * time.Millisecond
)

// Run audits a run as it is now, live or ended: the ledger's head is taken first,
// so everything that it rests on is there. The error is the bus's, or that there
// is no such run; what is wrong with the run is in the report.
func Run(ctx context.Context, conn *bus.Conn, run subjects.Run, o Options) (*Report, error) {
	if err := run.Validate(); err != nil {
		return nil, err
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.Observer == nil {
		o.Observer = blind{}
	}
	began := time.Now()
	if o.Policy == nil {
		p, err := PolicyOf(ctx, conn, run)
		if err != nil {
			return nil, err
		}
		o.Policy = p
	}
	cut, err := takeCut(ctx, conn, run)
	if err != nil {
		return nil, fmt.Errorf("audit %s: %w", run, err)
	}
	a := newAuditor(conn, run, o, cut)
	if err := a.audit(ctx); err != nil {
		return nil, fmt.Errorf("audit %s: %w", run, err)
	}
	return a.report.finish(began), nil
}

// auditor is one audit. The goroutine of fold owns all of it but the streams.
type auditor struct {
	conn   *bus.Conn
	run    subjects.Run
	o      Options
	cut    *cut
	report *Report

	letters  *letters
	window   window
	groups   *groups
	evals    *evals
	trainer  *trainerLog
	counters *counters
	ledger   *derivation
	judged   uint64 // last ROLLOUTS sequence that a decision needed inspected
	suspects []suspect
	began    time.Time
	told     time.Time
}

func newAuditor(conn *bus.Conn, run subjects.Run, o Options, c *cut) *auditor {
	a := &auditor{conn: conn, run: run, o: o, cut: c, report: newReport(run, o.Keep, c), began: time.Now()}
	a.groups = newGroups(a)
	a.evals = newEvals(a)
	a.trainer = newTrainerLog(a)
	a.counters = newCounters(a)
	a.ledger = newDerivation(a)
	return a
}

// audit reads the streams side by side.
func (a *auditor) audit(ctx context.Context) (err error) {
	if a.letters, err = readLetters(ctx, a.conn, a.run, a.cut.deadletter); err != nil {
		return err
	}
	for _, l := range a.letters.list {
		a.o.Observer.Letter(l.seq, l.Address)
	}
	a.ledger.start()
	g, ctx := errgroup.WithContext(ctx)
	entries, bundles, events := make(chan record, 64), make(chan *bundle, 64), make(chan event, 256)
	g.Go(func() error { defer close(entries); return a.readLedger(ctx, entries) })
	g.Go(func() error { defer close(bundles); return a.readRollouts(ctx, bundles) })
	g.Go(func() error { defer close(events); return a.readWeights(ctx, events) })
	g.Go(func() error {
		f := fold{auditor: a, ctx: ctx, entries: entries, bundles: source[*bundle]{in: bundles}, events: source[event]{in: events}}
		return f.all()
	})
	return g.Wait()
}

// tell reports progress.
func (a *auditor) tell(seq uint64) {
	if a.o.Progress == nil || time.Since(a.told) < progressEvery {
		return
	}
	a.told = time.Now()
	a.o.Progress(Progress{Done: seq, Total: a.cut.rollouts.LastSeq, Bytes: a.report.Bytes, Elapsed: time.Since(a.began)})
}
