package perfetto

// TrackID names a track within a trace; 0 is none.
type TrackID uint64

// Track is a line of the trace: a process, a thread, a counter, or one of the
// user's own below another.
type Track struct {
	ID TrackID
	// Parent is the track it is shown under; 0: none.
	Parent TrackID
	Name   string
	// Description is the help text at the track's name.
	Description string
	// Rank orders it among its siblings, where the parent's Ranked is set.
	Rank   int
	Ranked bool // its children are ordered by Rank

	// One of these at most makes it what it is.
	Process *Process
	Thread  *Thread
	Counter *Counter
}

// Process makes a track a process. PIDs need only differ within the trace.
type Process struct {
	PID  int
	Name string
}

// Thread makes a track a thread of the process with that PID.
type Thread struct {
	PID, TID int
	Name     string
}

// Counter makes a track a curve of numbers.
type Counter struct {
	Unit string // as shown; empty: none
}

// descriptor appends the wire form of the track.
func (t *Track) descriptor(m *message) {
	m.uint(trackUUID, uint64(t.ID))
	if t.Name != "" {
		m.text(trackName, t.Name)
	}
	if t.Parent != 0 {
		m.uint(trackParent, uint64(t.Parent))
	}
	if t.Description != "" {
		m.text(trackDescription, t.Description)
	}
	if t.Ranked {
		m.uint(trackChildren, childrenExplicit)
	}
	if t.Rank != 0 {
		m.int(trackRank, int64(t.Rank))
	}
	var inner message
	switch {
	case t.Process != nil:
		inner.int(processPID, int64(t.Process.PID))
		inner.text(processName, t.Process.Name)
		m.embed(trackProcess, inner)
	case t.Thread != nil:
		inner.int(threadPID, int64(t.Thread.PID))
		inner.int(threadTID, int64(t.Thread.TID))
		inner.text(threadName, t.Thread.Name)
		m.embed(trackThread, inner)
	case t.Counter != nil:
		if t.Counter.Unit != "" {
			inner.text(counterUnit, t.Counter.Unit)
		}
		m.embed(trackCounter, inner)
	default:
		m.uint(trackMerge, mergeNone) // lanes of one name stay apart
	}
}
