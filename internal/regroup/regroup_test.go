package regroup_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/subjects"
)

func text(r *regroup.Report) string {
	b, _ := json.MarshalIndent(r, "", " ")
	return string(b)
}

// TestRun_OwnPolicyGivesTheLedger: retries, rejections, refills, evaluations,
// oversampling; every entry byte for byte.
func TestRun_OwnPolicyGivesTheLedger(t *testing.T) {
	cfg := policy()
	cfg.Oversample = 1
	w := played(t, "own", cfg)
	r := w.regroup(cfg)
	if !r.Own || !r.Sound || r.Entries == 0 || r.Same != r.Entries || r.Changed > 0 || r.FirstStep > 0 || r.Recorded.Digest != r.Regrouped.Digest || r.Unasked > 0 {
		t.Errorf("not the ledger: %s", text(r))
	}
	if r.Recorded.Steps != 12 || r.Recorded.Groups[subjects.ZeroVariance] == 0 {
		t.Errorf("a poor run: %s", text(r))
	}
}

func TestRun_AnotherPolicySaysWhatDiffers(t *testing.T) {
	w := played(t, "another", policy())
	for _, c := range []struct {
		name   string
		change func(*grouper.Config)
		wants  func(*regroup.Report) bool
	}{
		{"keep zero variance", func(c *grouper.Config) { c.ZeroVariance = grouper.PolicyKeep },
			func(r *regroup.Report) bool {
				return r.Changed > 0 && r.Regrouped.Groups[subjects.ZeroVariance] == 0 && r.FirstStep > 0 && r.Regrouped.Steps == 12
			}},
		{"smaller batches", func(c *grouper.Config) { c.GroupsPerBatch, c.Steps = 1, 30 },
			func(r *regroup.Report) bool {
				return r.Regrouped.Steps == 30 && r.Regrouped.Trained == 30 && r.FirstStep == 1
			}},
		{"smaller groups", func(c *grouper.Config) { c.GroupSize, c.Evaluation = 2, grouper.Evaluation{} },
			func(r *regroup.Report) bool {
				return r.Unasked > 0 && r.Regrouped.Trajectories == 2*r.Regrouped.Trained && r.Regrouped.Steps > 6
			}},
		{"larger groups than were played", func(c *grouper.Config) { c.GroupSize = 6 },
			func(r *regroup.Report) bool {
				return r.Regrouped.Steps == 0 && r.Regrouped.Trained == 0 && r.Changed > 0
			}},
		{"other advantages", func(c *grouper.Config) { c.Advantage = grouper.AdvantageDrGRPO },
			func(r *regroup.Report) bool {
				return r.Changed == 0 && r.FirstStep == 1 && strings.Contains(r.Why, "other advantages")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.TB = t
			cfg := policy()
			c.change(&cfg)
			r, again := w.regroup(cfg), w.regroup(cfg)
			if r.Own || !r.Sound || !c.wants(r) {
				t.Errorf("says %s", text(r))
			}
			if text(r) != text(again) {
				t.Errorf("says another thing the second time: %s", text(again))
			}
		})
	}
}

func TestRun_RefusesGroupsFromElsewhere(t *testing.T) {
	cfg := policy()
	cfg.Source = grouper.SourceExternal
	_, err := regroup.Run(t.Context(), nil, "none", regroup.Options{Policy: cfg, Own: &audit.Policy{Grouper: policy()}})
	if err == nil || !strings.Contains(err.Error(), "source") {
		t.Errorf("says %v", err)
	}
}

// TestDiff_FindsWhereRunsPart: two runs of one policy play the same tasks with the
// same answers; with another estimator they part at the first step.
func TestDiff_FindsWhereRunsPart(t *testing.T) {
	a := played(t, "a", policy())
	side := func(w *world) regroup.Side { return regroup.Side{Conn: w.conn, Run: w.run} }
	d, err := regroup.Diff(t.Context(), side(a), side(a))
	if err != nil || !d.Same || d.Ledgers[0].Steps != 12 {
		t.Errorf("a run differs from itself: %+v, %v", d, err)
	}
	other := policy()
	other.Advantage = grouper.AdvantageRLOO
	b := played(t, "b", other)
	if d, err = regroup.Diff(t.Context(), side(a), side(b)); err != nil || d.Same || d.FirstStep != 1 || d.Why == "" {
		t.Errorf("says %+v, %v", d, err)
	}
	if _, err = regroup.Diff(t.Context(), side(a), regroup.Side{Conn: a.conn, Run: "gone"}); err == nil || !strings.Contains(err.Error(), "no run gone") {
		t.Errorf("says %v", err)
	}
}
