package main

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// admission holds producers at a number of batches ahead of the trainer. With
// tasks the grouper does that by what it issues; groups from outside come as
// they like, so here the producers watch the commits themselves, half of that
// number at a time.
type admission struct {
	mu     sync.Mutex
	moved  sync.Cond
	groups int // that may be published
}

// admit follows the trainer's commits as they are published.
func admit(conn *bus.Conn, j job) (*admission, error) {
	a := &admission{groups: j.Ahead * j.GroupsPerBatch}
	a.moved.L = &a.mu
	_, err := conn.NC().Subscribe(benchRun.WeightsSubject(subjects.EventCommit), func(m *nats.Msg) {
		var e subjects.CommitEvent
		if subjects.DecodeMessage(m.Data, &e) != nil {
			return
		}
		a.mu.Lock()
		if step := int(e.Step); step%(j.Ahead/2) == 0 {
			a.groups = max(a.groups, (step+j.Ahead)*j.GroupsPerBatch)
			a.moved.Broadcast()
		}
		a.mu.Unlock()
	})
	return a, err
}

// wait waits until the group may be published.
func (a *admission) wait(group int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for group >= a.groups {
		a.moved.Wait()
	}
}
