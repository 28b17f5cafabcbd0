package main

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// verdict is what the checks found.
type verdict struct {
	Lost       int      `json:"lost"`
	Duplicated int      `json:"duplicated"`
	Mixed      int      `json:"mixed"`
	Wrong      int      `json:"wrong,omitempty"` // whatever else the audit finds
	Audit      string   `json:"audit,omitempty"` // its verdict
	Stuck      bool     `json:"stuck,omitempty"`
	Reported   bool     `json:"reported,omitempty"` // a loss that a fault made was reported
	Resumed    int      `json:"resumed"`            // steps that were delivered again, equal
	Faults     []string `json:"faults,omitempty"`   // the first of each, in words
	Error      string   `json:"error,omitempty"`
}

func (v *verdict) lose(format string, args ...any)    { v.note(&v.Lost, format, args...) }
func (v *verdict) double(format string, args ...any)  { v.note(&v.Duplicated, format, args...) }
func (v *verdict) confuse(format string, args ...any) { v.note(&v.Mixed, format, args...) }

func (v *verdict) note(count *int, format string, args ...any) {
	if *count++; len(v.Faults) < 20 {
		v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
	}
}

// check holds the trainer's log, the ledger and the bodies against each other.
func (w *world) check(ctx context.Context, c *bus.Conn, h *history) (v verdict) {
	lines, err := w.trainerLog().read()
	if err != nil {
		v.Error = fmt.Sprintf("read the trainer's log: %v", err)
		return v
	}
	for _, gap := range h.gaps {
		v.lose("stream %s", gap)
	}
	digests := v.deliveries(lines)
	batches := v.ledger(h.entries)
	for step := subjects.Step(1); int(step) <= w.o.steps; step++ {
		if digests[step] == "" {
			v.lose("step %d was never delivered", step)
		}
		if batches[step] == nil {
			v.lose("step %d is not in the ledger", step)
		}
	}
	if err := v.bodies(ctx, c, batches); err != nil {
		v.Error = fmt.Sprintf("read the bodies: %v", err)
		return v
	}
	there := 0 // as many as a bridge can build
	for there < len(digests) && batches[subjects.Step(there+1)] != nil {
		there++
	}
	again, err := rebuild(ctx, c, w, there)
	if err != nil {
		v.Error = fmt.Sprintf("build the batches again: %v", err)
		return v
	}
	v.compare(lines, digests, again)
	return v
}

// deliveries checks the order within each life of the trainer, and that a step
// that came again was the same.
func (v *verdict) deliveries(lines []line) map[subjects.Step]string {
	digests := map[subjects.Step]string{}
	at := subjects.Step(-1)
	for _, l := range lines {
		switch l.Event {
		case "start":
			at = l.Step
		case "batch":
			if l.Step <= at {
				v.double("step %d was delivered after step %d", l.Step, at)
			}
			for missed := at + 1; missed < l.Step; missed++ {
				v.lose("step %d was skipped", missed)
			}
			at = l.Step
			switch known := digests[l.Step]; known {
			case "":
				digests[l.Step] = l.Digest
			case l.Digest:
				v.Resumed++
			default:
				v.confuse("step %d was %s, then %s", l.Step, known, l.Digest)
			}
		}
	}
	return digests
}

// ledger checks that every batch is there once and no trajectory twice, and that
// groups are whole.
func (v *verdict) ledger(entries []subjects.Entry) map[subjects.Step]*subjects.Batch {
	batches := map[subjects.Step]*subjects.Batch{}
	used := map[string]subjects.Step{}
	groups := map[subjects.GroupID]subjects.Step{}
	for i := range entries {
		for k := range entries[i].Batches {
			b := &entries[i].Batches[k]
			if batches[b.Step] != nil {
				v.double("the ledger has step %d twice", b.Step)
			}
			batches[b.Step] = b
			for _, g := range b.Groups {
				if before, ok := groups[g.Group]; ok {
					v.double("group %s is in steps %d and %d", g.Group, before, b.Step)
				}
				groups[g.Group] = b.Step
				v.members(b, g, used)
			}
		}
	}
	return batches
}

const groupSize = 4 // of the recipe

func (v *verdict) members(b *subjects.Batch, g subjects.BatchGroup, used map[string]subjects.Step) {
	if len(g.Members) != groupSize {
		v.lose("group %s of step %d has %d members", g.Group, b.Step, len(g.Members))
	}
	slots := map[subjects.Slot]bool{}
	for _, m := range g.Members {
		if slots[m.Slot] {
			v.double("group %s has slot %d twice", g.Group, m.Slot)
		}
		slots[m.Slot] = true
		address := fmt.Sprintf("%d.%d", m.Seq, m.Index)
		if before, ok := used[address]; ok {
			v.double("trajectory %s is in steps %d and %d", address, before, b.Step)
		}
		used[address] = b.Step
	}
}
