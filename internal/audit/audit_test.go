package audit_test

import (
	"encoding/json"
	"testing"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// clean wants a report without a discrepancy and with everything proved.
func clean(t *testing.T, r *audit.Report) {
	t.Helper()
	text, _ := json.MarshalIndent(r, "", " ")
	for _, c := range r.Checks {
		if c.Unproven > 0 || c.Checked == 0 {
			t.Errorf("check %s: %d checked, %d unproven", c.Name, c.Checked, c.Unproven)
		}
	}
	if !r.OK || !r.Training.Balanced || !r.Evaluation.Balanced {
		t.Errorf("not clean: %s", text)
	}
}

func TestRun_CleanRunPasses(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "clean", policy(12))
	r := w.play().audit()
	clean(t, r)
	if r.Training.Used == 0 || r.Training.Dropped["failed"] == 0 || r.Cut.Ended != subjects.EndComplete {
		t.Errorf("account %+v, ended %q", r.Training, r.Cut.Ended)
	}
}

func TestDump(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "clean", policy(12))
	r := w.play().audit()
	text, _ := json.MarshalIndent(r, "", " ")
	t.Log(string(text))
}
