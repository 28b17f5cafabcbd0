package metrics

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/subjects"
)

func say(r *Reports, role, instance string, values map[string]float64) {
	r.Report(&subjects.Gauges{V: 1, Role: role, Instance: instance, Values: values})
}

func TestReports_ACounterSurvivesTheRestartOfItsSource(t *testing.T) {
	p := &Page{Run: run, Reports: NewReports()}
	read := func() float64 { return lines(t, p, nil)["headrace_generate_calls_total"] }
	for i, c := range []struct{ says, want float64 }{{10, 10}, {25, 25}, {3, 28}, {3, 28}, {8, 33}} {
		say(p.Reports, RoleProducer, "a", map[string]float64{"calls": c.says})
		if got := read(); got != c.want {
			t.Errorf("report %d says %v: %v on the page, want %v", i, c.says, got, c.want)
		}
	}
	say(p.Reports, RoleProducer, "a", map[string]float64{"slots": 1}) // says nothing of calls
	say(p.Reports, RoleProducer, "a", map[string]float64{"calls": 9})
	say(p.Reports, RoleProducer, "b", map[string]float64{"calls": 100})
	if got := read(); got != 134 {
		t.Errorf("%v calls of two producers, want 134", got)
	}
}

func TestReports_WhatAGrouperSaysOfTheRunCountsOnce(t *testing.T) {
	p := &Page{Run: run, Reports: NewReports()}
	say(p.Reports, RoleGrouper, "g1", map[string]float64{"produced": 100, "dropped_late": 5, "dropped_stale": 2})
	say(p.Reports, RoleGrouper, "g2", map[string]float64{"produced": 90, "dropped_late": 4})
	say(p.Reports, RoleGrouper, "g1", map[string]float64{"produced": 110, "dropped_late": 4, "dropped_of_a_new_kind": 3})
	got := lines(t, p, nil)
	for key, want := range map[string]float64{
		"headrace_trajectories_produced_total":               110,
		"headrace_trajectories_dropped_total,reason=late":    5,
		"headrace_trajectories_dropped_total,reason=stale":   2,
		"headrace_trajectories_dropped_total,reason=expired": 0,
		"headrace_trajectories_dropped_total,reason=other":   3,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}

func TestReports_GaugesAreOfThoseWhoLive(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &Page{Run: run, Reports: NewReports()}
	p.Reports.now = func() time.Time { return now }
	say(p.Reports, RoleEngine, "e0", map[string]float64{"running": 4, "version": 7, "token_usage": .5, "requests": 3})
	now = now.Add(5 * time.Second)
	say(p.Reports, RoleEngine, "e1", map[string]float64{"running": 2, "version": 8, "token_usage": .25, "requests": 4})
	got := lines(t, p, nil)
	if got["headrace_engine_requests_running"] != 6 || got["headrace_engine_policy_version"] != 7 || got["headrace_engine_token_usage_ratio"] != .5 {
		t.Errorf("two engines: %v", got)
	}
	now = now.Add(6 * time.Second)
	got = lines(t, p, nil)
	if got["headrace_engine_requests_running"] != 2 || got["headrace_engine_policy_version"] != 8 || got["headrace_engine_requests_total"] != 7 {
		t.Errorf("one of them has gone: %v", got)
	}
	now = now.Add(time.Minute)
	got = lines(t, p, nil)
	if _, ok := got["headrace_engine_requests_running"]; ok || got["headrace_engine_requests_total"] != 7 {
		t.Errorf("both have gone: %v", got)
	}
}

func TestReports_WhatNobodyCanBelieveIsLeftOut(t *testing.T) {
	p := &Page{Run: run, Reports: NewReports()}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 1e300} {
		say(p.Reports, RoleProducer, "a", map[string]float64{"calls": v})
		say(p.Reports, RoleProducer, "a", map[string]float64{"calls": 7})
	}
	if got := lines(t, p, nil)["headrace_generate_calls_total"]; got != 7 {
		t.Errorf("%v calls, want 7", got)
	}
}

func TestReports_MoreInstancesThanThereIsRoomForAreIgnored(t *testing.T) {
	r := NewReports()
	for i := range maxInstances + 100 {
		say(r, RoleProducer, string(rune(i+0x100))+"x", map[string]float64{"calls": 1})
	}
	if read, ignored := r.counts(); read != maxInstances || ignored != 100 {
		t.Errorf("%d read, %d ignored", read, ignored)
	}
}

// TestReports_CountersNeverGoBack: whatever instances say.
func TestReports_CountersNeverGoBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewReports()
		last := make([]float64, len(r.series))
		for range rapid.IntRange(1, 40).Draw(t, "reports") {
			say(r, rapid.SampledFrom([]string{RoleProducer, RoleGrouper, RoleBridge}).Draw(t, "role"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "instance"), map[string]float64{
				"calls": rapid.Float64().Draw(t, "calls"), "dropped_late": float64(rapid.IntRange(-5, 50).Draw(t, "late")), "tokens_total": float64(rapid.IntRange(0, 9).Draw(t, "tokens"))})
			for i := range r.series {
				if s := &r.series[i]; s.total < last[i] || math.IsNaN(s.total) {
					t.Fatalf("%s went from %v to %v", s.family.Name, last[i], s.total)
				}
				last[i] = r.series[i].total
			}
		}
	})
}
