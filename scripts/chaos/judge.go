package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/internal/audit"
)

// judge checks the run's logs, twice and independently, and measures the recovery.
func (w *world) judge(ctx context.Context, hurt wound, r *result) error {
	conn, err := w.connect(ctx)
	if err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing is pending
	history, err := readHistory(ctx, conn)
	if err != nil {
		return fmt.Errorf("read the logs: %w", err)
	}
	report, err := audit.Run(ctx, conn, runName, audit.Options{})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	r.verdict = w.check(ctx, conn, history)
	r.spoiled(history, hurt)
	r.audited(report)
	if !hurt.Back.IsZero() {
		r.Recovery, r.Stall = history.recovery(hurt), history.stall(hurt)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// audited adds what `headrace audit` says: the larger count of the two counts.
func (v *verdict) audited(r *audit.Report) {
	v.Lost = max(v.Lost, r.Lost+r.Short)
	v.Duplicated = max(v.Duplicated, r.Duplicated)
	v.Mixed = max(v.Mixed, r.Mixed)
	v.Wrong = r.Wrong
	v.Audit = r.Verdict
	for _, d := range r.Discrepancies[:min(len(r.Discrepancies), 10)] {
		v.Faults = append(v.Faults, fmt.Sprintf("audit: %+v", d))
	}
}

// spoiled wants no engine to have served a version whose files were damaged.
func (v *verdict) spoiled(h *history, hurt wound) {
	if hurt.Spoiled == "" {
		return
	}
	for _, a := range h.acks {
		if name := fmt.Sprintf("v%06d-%d", a.Version, a.Incarnation); name == hurt.Spoiled && a.Error == "" {
			v.confuse("the engine serves the damaged version %s", name)
		}
	}
}

// judgeLoss judges a run whose store was damaged: it may be over, or have stopped,
// but not without a word. Whatever the checks find counts as reported, because it
// is the audit that a user runs; what only this harness notices does not.
func (w *world) judgeLoss(ctx context.Context, ended error, hurt wound, r *result) error {
	word := w.word()
	err := w.judge(ctx, hurt, r)
	silent := r.Wrong == 0 && !strings.Contains(strings.Join(r.Faults, " "), "audit: ") && word == ""
	switch {
	case err == nil && ended == nil && r.Lost+r.Duplicated+r.Mixed+r.Wrong == 0: // it hit nothing that counts
		return nil
	case silent:
		return errors.Join(ended, err, errors.New("neither the audit nor a role says that the store is damaged"))
	}
	r.Reported, r.Stuck, r.Error = true, false, ""
	r.Wound += "; reported: " + r.Audit + "; " + word
	return nil
}

// words are what roles say when the log is not what it was.
var words = []string{"lost its end", "gap in the rollouts", "incompatible:", "malformed", "checksum", "is not readable", "read ledger entry",
	"the ledger of run", "out of sequence", "does not follow"}

// word is the first line of a role's log that says so.
func (w *world) word() string {
	logs, _ := filepath.Glob(w.path("logs/*.log"))
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for row := range bytes.Lines(text) {
			for _, x := range words {
				if bytes.Contains(row, []byte(x)) && (bytes.HasPrefix(row, []byte("headrace:")) || !bytes.Contains(row, []byte(`"level":"debug"`))) {
					return filepath.Base(name) + ": " + strings.TrimSpace(string(row))
				}
			}
		}
	}
	return ""
}
