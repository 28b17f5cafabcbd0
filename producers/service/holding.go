package service

import (
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	holdingEvery = 5  // reports between two that say what is held
	holdingMost  = 64 // tasks named in one
)

// held are the leases in this process's hands, and since when.
type held struct {
	mu     sync.Mutex
	leases map[*bus.Lease]time.Time
}

func (h *held) add(l *bus.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases == nil {
		h.leases = map[*bus.Lease]time.Time{}
	}
	h.leases[l] = time.Now()
}

func (h *held) remove(l *bus.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leases, l)
}

func (h *held) all() []*bus.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*bus.Lease, 0, len(h.leases))
	for l := range h.leases {
		list = append(list, l)
	}
	return list
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.leases)
}

// oldest are the leases held longest, at most holdingMost.
func (h *held) oldest(now time.Time) []subjects.HeldLease {
	h.mu.Lock()
	list := make([]subjects.HeldLease, 0, len(h.leases))
	for l, since := range h.leases {
		list = append(list, subjects.HeldLease{Task: l.Task.ID(), Age: now.Sub(since).Seconds()})
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b subjects.HeldLease) int {
		switch {
		case a.Age > b.Age:
			return -1
		case a.Age < b.Age:
			return 1
		}
		return 0
	})
	return list[:min(len(list), holdingMost)]
}
