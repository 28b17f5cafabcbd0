package main

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

// good is the log of a trainer that died behind step 3 and went on from step 2.
func good() []line {
	s := []string{""}
	for _, d := range []string{"a", "b", "c"} {
		s = append(s, learn(s[len(s)-1], d))
	}
	return []line{
		{Event: "start"}, {Event: "batch", Step: 1, Digest: "a"}, {Event: "commit", Step: 1}, {Event: "batch", Step: 2, Digest: "b"},
		{Event: "commit", Step: 2}, {Event: "saved", Step: 2}, {Event: "batch", Step: 3, Digest: "c"},
		{Event: "start", Step: 2, State: s[2]}, {Event: "batch", Step: 3, Digest: "c"}, {Event: "commit", Step: 3}, {Event: "end", Step: 3, State: s[3]},
	}
}

func TestDeliveries_EveryFaultCounts(t *testing.T) {
	for _, c := range []struct {
		name                    string
		spoil                   func(l []line) []line
		lost, duplicated, mixed int
	}{
		{"a resumed trainer", func(l []line) []line { return l }, 0, 0, 0},
		{"a step skipped", func(l []line) []line { return append(l[:3:3], l[6:]...) }, 1, 0, 0},
		{"a step twice in one life", func(l []line) []line { return append(l[:5:5], l[3:]...) }, 0, 1, 0},
		{"a step that came again changed", func(l []line) []line { l[8].Digest = "x"; return l }, 0, 0, 1},
		{"a step twice in the state", func(l []line) []line { l[7].State = learn(l[7].State, "c"); return l }, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, v := c.spoil(good()), verdict{}
			digests := v.deliveries(lines)
			v.compare(lines, digests, map[subjects.Step]string{1: "a", 2: "b", 3: "c"})
			if v.Lost != c.lost || v.Duplicated != c.duplicated || v.Mixed != c.mixed || v.Error != "" {
				t.Errorf("found %+v", v)
			}
		})
	}
}

func TestCompare_LogMustGiveWhatWasDelivered(t *testing.T) {
	var v verdict
	lines := good()
	v.compare(lines, v.deliveries(lines), map[subjects.Step]string{1: "a", 2: "x", 3: "c"})
	if v.Mixed == 0 {
		t.Error("another batch of step 2 passed")
	}
	v = verdict{}
	v.compare(lines[:9], v.deliveries(lines[:9]), map[subjects.Step]string{1: "a", 2: "b", 3: "c"})
	if v.Error == "" {
		t.Error("a log without an end passed")
	}
}

// group is a whole one, its trajectories in one bundle.
func group(id subjects.GroupID, seq uint64) subjects.BatchGroup {
	g := subjects.BatchGroup{Group: id}
	for i := range groupSize {
		g.Members = append(g.Members, subjects.Member{Slot: subjects.Slot(i), Seq: seq, Index: i})
	}
	return g
}

func TestLedger_EveryFaultCounts(t *testing.T) {
	short, twice := group("t1", 2), group("t1", 2)
	short.Members = short.Members[1:]
	twice.Members[3].Slot = 0
	for _, c := range []struct {
		name             string
		batches          []subjects.Batch
		lost, duplicated int
	}{
		{"whole", []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{group("t0", 1)}}, {Step: 2, Groups: []subjects.BatchGroup{group("t1", 2)}}}, 0, 0},
		{"a step twice", []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{group("t0", 1)}}, {Step: 1, Groups: []subjects.BatchGroup{group("t1", 2)}}}, 0, 1},
		{"a group twice", []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{group("t0", 1)}}, {Step: 2, Groups: []subjects.BatchGroup{group("t0", 2)}}}, 0, 1},
		{"trajectories twice", []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{group("t0", 1), group("t1", 1)}}}, 0, groupSize},
		{"a short group", []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{short}}}, 1, 0},
		{"a slot twice", []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{twice}}}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v verdict
			v.ledger([]subjects.Entry{{Batches: c.batches}})
			if v.Lost != c.lost || v.Duplicated != c.duplicated || v.Mixed != 0 {
				t.Errorf("found %+v", v)
			}
		})
	}
}

func TestResult_WhatCountsAsBad(t *testing.T) {
	for _, c := range []struct {
		name string
		v    verdict
		bad  bool
	}{
		{"clean", verdict{Resumed: 3}, false},
		{"lost", verdict{Lost: 1}, true},
		{"lost with the store, and reported", verdict{Lost: 1, Mixed: 1, Reported: true}, false},
		{"stuck", verdict{Stuck: true, Error: "stuck"}, true},
		{"the audit alone objects", verdict{Wrong: 1}, true},
	} {
		if r := (&result{verdict: c.v}); r.bad() != c.bad {
			t.Errorf("%s: bad is %v", c.name, r.bad())
		}
	}
}
