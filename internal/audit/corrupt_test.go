package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// both changes a kept group where it closes and where it is batched.
func both(e *subjects.Entry, group subjects.GroupID, fn func(members *[]subjects.Member)) (changed bool) {
	for i := range e.Verdicts {
		if e.Verdicts[i].Group == group {
			fn(&e.Verdicts[i].Members)
			changed = true
		}
	}
	for i := range e.Batches {
		for k := range e.Batches[i].Groups {
			if g := &e.Batches[i].Groups[k]; g.Group == group {
				fn(&g.Members)
				changed = true
			}
		}
	}
	return changed
}

// some is a group of the second batch, and a member of another one.
func (t *tape) some() (group subjects.GroupID, other subjects.Member) {
	for _, l := range t.ledger {
		var e subjects.Entry
		t.of.must(subjects.DecodeMessage(l.Data, &e))
		for _, b := range e.Batches {
			if b.Step == 2 {
				return b.Groups[0].Group, b.Groups[1].Members[1]
			}
		}
	}
	t.Fatal("no second batch")
	return "", other
}

func TestRun_EveryCorruptionIsReported(t *testing.T) {
	whole := record(newWorld(t, natstest.Loopback(t), "whole", policy(10)).play())
	clean(t, whole.copy().play("copied").audit())
	group, foreign := whole.some()
	for i, c := range []struct {
		name  string
		spoil func(t *tape)
		want  []wants
	}{
		{"a body with a flipped bit", func(t *tape) { m, _ := t.trained(); m.Data[len(m.Data)/2] ^= 4 },
			[]wants{{audit.CheckBodies, audit.Lost, "checksum of the body differs"}}},
		{"a body that another index entry describes", func(t *tape) {
			m, i := t.trained()
			m.Header[subjects.HeaderIndex][i] = strings.Replace(m.Header[subjects.HeaderIndex][i], " succeeded ", " truncated ", 1)
		}, []wants{{audit.CheckBodies, audit.Lost, "its index entry says"}, {audit.CheckGroups, audit.Wrong, "its index entry slot"}, {audit.CheckLedger, audit.Wrong, "must be truncated"}}},
		{"a trajectory of another group as a member", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				return both(e, group, func(m *[]subjects.Member) { a := (*m)[1].Advantage; (*m)[1] = foreign; (*m)[1].Advantage = a })
			})
		}, []wants{{audit.CheckGroups, audit.Mixed, "among its members"}, {audit.CheckBatches, audit.Duplicated, "which an earlier batch has"}, {audit.CheckLedger, audit.Wrong, ""}}}, // other members, or none to decide on yet
		{"a trajectory of another group in the batch alone", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				return slices.ContainsFunc(e.Batches, func(b subjects.Batch) bool { b.Groups[0].Members[1].Seq++; return b.Step == 2 })
			})
		}, []wants{{audit.CheckBatches, audit.Mixed, "with other members than it closed with"}}},
		{"a member twice", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				return both(e, group, func(m *[]subjects.Member) { a := (*m)[2].Advantage; (*m)[2] = (*m)[1]; (*m)[2].Advantage = a })
			})
		}, []wants{{audit.CheckGroups, audit.Duplicated, "twice"}, {audit.CheckBatches, audit.Duplicated, "which an earlier batch has"}}},
		{"a group without one of its members", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				return both(e, group, func(m *[]subjects.Member) { *m = slices.Delete(*m, 1, 2) })
			})
		}, []wants{{audit.CheckGroups, audit.Short, "is kept with 3 members; 4 are the least"}}},
		{"a batch without one of a group's members", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				b := batch(e, 3)
				if b == nil {
					return false
				}
				b.Groups[1].Members = b.Groups[1].Members[:3]
				return true
			})
		}, []wants{{audit.CheckBatches, audit.Short, "with 3 members; it closed with 4"}, {audit.CheckBatches, audit.Wrong, "its members have"}}},
		{"an advantage", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				b := batch(e, 4)
				if b == nil {
					return false
				}
				b.Groups[2].Members[0].Advantage += 1e-9
				return true
			})
		}, []wants{{audit.CheckBatches, audit.Wrong, "has the advantage"}, {audit.CheckLedger, audit.Wrong, "groups[2].members[0].advantage"}}},
		{"a group trained twice", func(t *tape) {
			var first subjects.BatchGroup
			t.entries(func(e *subjects.Entry) bool {
				for i := range e.Batches {
					switch e.Batches[i].Step {
					case 2:
						first = e.Batches[i].Groups[0]
					case 5:
						e.Batches[i].Groups[0] = first
						return true
					}
				}
				return false
			})
		}, []wants{{audit.CheckBatches, audit.Duplicated, "and was in one before"}}},
		{"a group closed twice", func(t *tape) {
			var v subjects.Verdict
			t.entries(func(e *subjects.Entry) bool {
				if len(e.Verdicts) > 0 && v.Group == "" {
					v = e.Verdicts[0]
					v.Outcome = subjects.Kept
				} else if len(e.Issued) > 0 && e.Issued[0].First > 12 {
					e.Verdicts = append(e.Verdicts, v)
					v.Group = "t4000000"
					return true
				}
				return false
			})
		}, []wants{{audit.CheckGroups, audit.Duplicated, "is closed again"}}},
		{"a verdict of another outcome", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				return slices.ContainsFunc(e.Verdicts, func(v subjects.Verdict) bool { return v.Group == group }) && func() bool { e.Verdicts[0].Closed++; return true }()
			})
		}, []wants{{audit.CheckLedger, audit.Wrong, "closed is 1"}}},
		{"a step that is skipped in the ledger", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				for i := range e.Batches {
					if e.Batches[i].Step >= 6 {
						e.Batches[i].Step++
						return true
					}
				}
				return false
			})
		}, []wants{{audit.CheckBatches, audit.Lost, "batch of step 7 where step 6 is due"}}},
		{"a step that is committed twice", func(t *tape) {
			event(t, subjects.EventCommit, 4, func(e *subjects.CommitEvent) { e.Step = 3 })
		}, []wants{{audit.CheckTrainer, audit.Duplicated, "which has committed step 3"}, {audit.CheckTrainer, audit.Lost, "it skipped 1"}}},
		{"a trainer that resumed behind a step that nobody cut", func(t *tape) {
			event(t, subjects.EventResumed, 1, func(e *subjects.ResumedEvent) { e.Step = 40 })
		}, []wants{{audit.CheckTrainer, audit.Lost, "resumed behind step 40"}}},
		{"a message that was acknowledged and never stored", func(t *tape) {
			m := t.rollouts[len(t.rollouts)-1]
			name, n := subjects.ParseLife(m.Header.Get(subjects.HeaderLife))
			m.Header.Set(subjects.HeaderLife, subjects.Life(name, n+3))
		}, []wants{{audit.CheckProducers, audit.Lost, "acknowledged"}}},
		{"a counter that is left out", func(t *tape) {
			for i, m := range t.rollouts {
				m.Header.Del(subjects.HeaderLife)
				n, _ := strconv.Atoi(m.Header.Get(subjects.HeaderCounter))
				if m.Header.Set(subjects.HeaderCounter, strconv.Itoa(n+i/20)); i == len(t.rollouts)-1 {
					return
				}
			}
		}, []wants{{audit.CheckProducers, audit.Lost, "messages are missing"}}},
		{"a trajectory with a forged token", func(t *tape) {
			m, i := t.trained()
			s := m.Header[subjects.HeaderIndex][i]
			m.Header[subjects.HeaderIndex][i] = s[:len(s)-3] + "abc"
		}, []wants{{audit.CheckGroups, audit.Lost, "there is no trajectory at"}, {audit.CheckLedger, audit.Wrong, ""}}},
		{"a member that played another task", func(t *tape) { t.otherSeed() },
			[]wants{{audit.CheckGroups, audit.Mixed, "played another task"}}},
		{"an end that the log does not give", func(t *tape) {
			t.entries(func(e *subjects.Entry) bool {
				was := e.End
				e.End = "all_stale"
				return was != ""
			})
		}, []wants{{audit.CheckLedger, audit.Wrong, "end is all_stale"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := whole.copy()
			copied.TB = t
			c.spoil(copied)
			r := copied.play(subjects.Run(fmt.Sprint("c", i))).audit()
			for _, want := range c.want {
				if err := want.in(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// otherSeed gives one body of a group another seed, with everything else right.
func (t *tape) otherSeed() {
	m, i := t.trained()
	b, err := bus.OpenBundle(1, m.Header, m.Data)
	t.of.must(err)
	var index []string
	var data []byte
	for k := range b.Items {
		tr, err := subjects.DecodeTrajectory(b.Body(k))
		t.of.must(err)
		if k == i {
			tr.Seed = -tr.Seed - 1 // of the same length
		}
		body := encode(t, tr)
		e := b.Items[k].Entry
		e.Offset, e.Length, e.Checksum = len(data), len(body), subjects.Checksum(body)
		index, data = append(index, e.String()), append(data, body...)
	}
	m.Header[subjects.HeaderIndex], m.Data = index, data
}

func TestRun_DeletedBundleIsLost(t *testing.T) {
	whole := record(newWorld(t, natstest.Loopback(t), "whole", policy(10)).play())
	for _, c := range []struct {
		name string
		seq  func(n uint64) uint64
	}{{"in the middle", func(n uint64) uint64 { return n / 2 }}, {"the first", func(uint64) uint64 { return 1 }}, {"the last", func(n uint64) uint64 { return n }}} {
		t.Run(c.name, func(t *testing.T) {
			w := whole.copy().play(subjects.Run("cut-" + strings.ReplaceAll(c.name, " ", "-")))
			stream, err := w.conn.JS().Stream(t.Context(), w.run.StreamName(subjects.Rollouts))
			w.must(err)
			w.must(stream.DeleteMsg(t.Context(), c.seq(uint64(len(whole.rollouts)))))
			r := w.audit()
			if err := (wants{audit.CheckStreams, audit.Lost, "is missing: deleted, with no record of a purge"}).in(r); err != nil || r.Lost != 1 {
				t.Errorf("%v; lost %d: %+v", err, r.Lost, r.Discrepancies)
			}
		})
	}
}

func encode(t *tape, tr *subjects.Trajectory) []byte {
	var b bytes.Buffer
	t.of.must(subjects.EncodeTrajectory(&b, tr))
	return b.Bytes()
}

// batch is the entry's batch of a step, if it has it: one entry may have several.
func batch(e *subjects.Entry, step subjects.Step) *subjects.Batch {
	for i := range e.Batches {
		if e.Batches[i].Step == step {
			return &e.Batches[i]
		}
	}
	return nil
}
