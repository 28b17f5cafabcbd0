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
}

// history is what the streams say of a run.
type history struct {
	marks   []mark
	entries []subjects.Entry
	gaps    []string // messages that streams have lost
}

// readHistory reads ROLLOUTS, LEDGER and WEIGHTS from end to end.
func readHistory(ctx context.Context, c *bus.Conn) (*history, error) {
	h := &history{}
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
	err = bus.Follow(ctx, c, runName.StreamName(s), "", state.FirstSeq, func(m *bus.Msg) error {
		if err := note(m); err != nil {
			return fmt.Errorf("message %d: %w", m.Seq, err)
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
	for _, text := range m.Header[subjects.HeaderIndex] {
		e, err := subjects.ParseIndex(text)
		if err != nil {
			return err
		}
		if e.Status != subjects.Failed && e.Status != subjects.Aborted {
			h.marks = append(h.marks, mark{m.Time, played, m.Header.Get(subjects.HeaderProducer)})
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
	h.marks = append(h.marks, mark{m.Time, decided, e.Writer})
	return nil
}

func (h *history) event(m *bus.Msg) error {
	switch m.Subject {
	case runName.WeightsSubject(subjects.EventCommit):
		h.marks = append(h.marks, mark{m.Time, committed, ""})
	case runName.AckSubject("engine"):
		var e subjects.AckEvent
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		if e.Error == "" {
			h.marks = append(h.marks, mark{m.Time, served, e.Engine})
		}
	}
	return nil
}

// recovery is the time from the end of the fault to the next progress, in
// seconds; -1 when the run was over before there was any.
func (h *history) recovery(w wound) float64 {
	best := -1.0
	for _, m := range h.marks {
		if m.stage != w.Stage || w.Who != "" && m.who != w.Who || m.at.Before(w.Back) {
			continue
		}
		if took := m.at.Sub(w.Back).Seconds(); best < 0 || took < best {
			best = took
		}
	}
	return best
}
