package ui

import (
	"cmp"
	"time"
)

// janitor closes what nobody looks at, what has ended, and forgets what there is
// no room for.
func (s *Server) janitor() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			for _, w := range s.idle(now) {
				w.shut()
			}
			s.forget()
		}
	}
}

// idle are the runs to be closed.
func (s *Server) idle(now time.Time) (list []*watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.runs {
		w.mu.Lock()
		if v := w.view; v != nil && w.holders == 0 {
			after := s.o.Idle
			if v.Stopped {
				after = s.o.IdleStopped
			}
			if v.over() || now.Sub(w.used) > after && !v.busy() {
				list = append(list, w)
			}
		}
		w.mu.Unlock()
	}
	return list
}

// forget drops the runs that were looked at longest ago.
func (s *Server) forget() {
	for w := s.victim(); w != nil; w = s.victim() {
		w.shut()
	}
}

// victim takes out the run that nobody looks at for the longest time, if there are
// too many, or they take too much.
func (s *Server) victim() *watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *watched
	bytes := 0
	for _, w := range s.runs {
		w.mu.Lock()
		if v := cmp.Or(w.view, w.last); v != nil {
			bytes += v.index.Bytes()
		}
		if w.holders == 0 && (oldest == nil || w.used.Before(oldest.used)) {
			oldest = w
		}
		w.mu.Unlock()
	}
	if oldest == nil || len(s.runs) <= s.o.MostRuns && (bytes <= s.o.MostBytes || len(s.runs) == 1) {
		return nil
	}
	delete(s.runs, oldest.run)
	return oldest
}
