package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// mark is one sign of progress in the logs.
type mark struct {
	at    time.Time // the server's clock
	stage stage
	who   string
	step  subjects.Step // of a commit
}

// history is what the streams say of a run.
type history struct {
	marks   []mark
	entries []subjects.Entry
	stored  map[uint64]time.Time // ROLLOUTS messages
	acks    []subjects.AckEvent
	gaps    []string // messages that streams have lost, or changed
}

// readHistory reads ROLLOUTS, LEDGER and WEIGHTS from end to end.
func readHistory(ctx context.Context, c *bus.Conn) (*history, error) {
	h := &history{stored: map[uint64]time.Time{}}
	for _, s := range []struct {
		stream subjects.Stream
		note   func(*bus.Msg) error
	}{{subjects.Rollouts, h.rollout}, {subjects.Ledger, h.entry}, {subjects.Weights, h.event}} {
		if err := h.read(ctx, c, s.stream, s.note); err != nil {
			return nil, fmt.Errorf("%s: %w", s.stream, err)
		}
	}
	return h, nil
}

var errRead = errors.New("read to the end")

func (h *history) read(ctx context.Context, c *bus.Conn, s subjects.Stream, note func(*bus.Msg) error) error {
	state, err := bus.StreamState(ctx, c, runName, s)
	if err != nil || state.Msgs == 0 {
		return err
	}
	if state.FirstSeq > 1 || state.Msgs != state.LastSeq {
		h.gaps = append(h.gaps, fmt.Sprintf("%s holds %d messages of %d to %d", s, state.Msgs, state.FirstSeq, state.LastSeq))
	}
	count := uint64(0)
	defer func() {
		if count != state.Msgs {
			h.gaps = append(h.gaps, fmt.Sprintf("%s says it holds %d messages and gives %d", s, state.Msgs, count))
		}
	}()
	err = bus.Follow(ctx, c, runName.StreamName(s), "", state.FirstSeq, func(m *bus.Msg) error {
		count++
		if err := note(m); err != nil {
			h.gaps = append(h.gaps, fmt.Sprintf("%s has a message %d that cannot be read: %v", s, m.Seq, err))
		}
		if m.Pending == 0 {
			return errRead
		}
		return nil
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return err
}

func (h *history) rollout(m *bus.Msg) error {
	h.stored[m.Seq] = m.Time
	for _, text := range m.Header[subjects.HeaderIndex] {
		e, err := subjects.ParseIndex(text)
		if err != nil {
			return err
		}
		if e.Status != subjects.Failed && e.Status != subjects.Aborted {
			h.marks = append(h.marks, mark{at: m.Time, stage: played, who: m.Header.Get(subjects.HeaderProducer)})
		}
	}
	return nil
}

func (h *history) entry(m *bus.Msg) error {
	var e subjects.Entry
	if err := subjects.DecodeMessage(m.Data, &e); err != nil {
		return err
	}
	h.entries = append(h.entries, e)
	h.marks = append(h.marks, mark{at: m.Time, stage: decided, who: e.Writer})
	return nil
}

func (h *history) event(m *bus.Msg) error {
	switch m.Subject {
	case runName.WeightsSubject(subjects.EventCommit):
		var e subjects.CommitEvent
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		h.marks = append(h.marks, mark{at: m.Time, stage: committed, step: e.Step})
	case runName.AckSubject("engine"):
		var e subjects.AckEvent
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		h.acks = append(h.acks, e)
		if e.Error == "" {
			h.marks = append(h.marks, mark{at: m.Time, stage: served, who: e.Engine})
		}
	}
	return nil
}

// recovery is the time from the end of the fault to the next progress, in
// seconds; -1 when the run was over before there was any.
func (h *history) recovery(w wound) float64 {
	fresh := map[subjects.Step]bool{}
	if w.Stage == cycle {
		fresh = h.playedAfter(w)
	}
	best := -1.0
	for _, m := range h.marks {
		ok := m.stage == w.Stage && (w.Who == "" || m.who == w.Who) || w.Stage == cycle && m.stage == committed && fresh[m.step]
		took, after := since(w, m.at)
		if ok && after && (best < 0 || took.Seconds() < best) {
			best = took.Seconds()
		}
	}
	return best
}

// stall is the longest time without a commit, from when the fault was over to
// the last commit, in seconds.
func (h *history) stall(w wound) float64 {
	last, longest := time.Duration(0), time.Duration(0)
	for _, m := range h.marks { // of one stage, in the order of the log
		if m.stage != committed {
			continue
		}
		if at, after := since(w, m.at); after {
			longest, last = max(longest, at-last), at
		}
	}
	return longest.Seconds()
}

// since is the time from the end of the fault to a moment of the server's clock;
// false: it was before, by a clock that was an hour ahead of the later one, perhaps.
func since(w wound, at time.Time) (time.Duration, bool) {
	took := at.Add(-w.Shift).Sub(w.Back)
	return took, took >= 0 && took < 30*time.Minute
}

// playedAfter are the steps whose trajectories were all played after the fault.
func (h *history) playedAfter(w wound) map[subjects.Step]bool {
	fresh := map[subjects.Step]bool{}
	for i := range h.entries {
		for _, b := range h.entries[i].Batches {
			fresh[b.Step] = true
			for _, g := range b.Groups {
				for _, m := range g.Members {
					if _, after := since(w, h.stored[m.Seq]); !after {
						fresh[b.Step] = false
					}
				}
			}
		}
	}
	return fresh
}
