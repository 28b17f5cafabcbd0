package ui

import "cmp"

// Held is what a server holds now.
type Held struct {
	// Streams are browsers that listen to a run's events.
	Streams int
	// Runs that are open, each with a connection.
	Runs int
	// IndexBytes is about what the indexes take, those of runs that were closed
	// lately included, and Trajectories what they know.
	IndexBytes, Trajectories int
}

// Held says what the server holds. It is cheap.
func (s *Server) Held() Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Held{Streams: s.clients}
	for _, w := range s.runs {
		w.mu.Lock()
		if w.view != nil {
			h.Runs++
		}
		v := cmp.Or(w.view, w.last)
		w.mu.Unlock()
		if v != nil {
			h.IndexBytes += v.index.Bytes()
			h.Trajectories += v.index.Stats().Trajectories
		}
	}
	return h
}
