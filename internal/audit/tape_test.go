package audit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// tape is a recorded run, to be played into another one with a change.
type tape struct {
	testing.TB
	of                                 *world
	rollouts, ledger, weights, letters []*nats.Msg
}

var errAll = errors.New("all")

func record(w *world) *tape {
	t := &tape{TB: w.TB, of: w}
	for s, list := range t.streams() {
		state, err := bus.StreamState(w.Context(), w.conn, w.run, s)
		w.must(err)
		if state.Msgs == 0 {
			continue
		}
		err = bus.Follow(w.Context(), w.conn, w.run.StreamName(s), "", 1, func(m *bus.Msg) error {
			h := nats.Header{}
			for k, v := range m.Header {
				if !strings.HasPrefix(k, "Nats-") {
					h[k] = slices.Clone(v)
				}
			}
			*list = append(*list, &nats.Msg{Subject: m.Subject, Header: h, Data: slices.Clone(m.Data)})
			if m.Seq == state.LastSeq {
				return errAll
			}
			return nil
		})
		if !errors.Is(err, errAll) {
			w.must(err)
		}
	}
	return t
}

func (t *tape) streams() map[subjects.Stream]*[]*nats.Msg {
	return map[subjects.Stream]*[]*nats.Msg{subjects.Rollouts: &t.rollouts, subjects.Ledger: &t.ledger, subjects.Weights: &t.weights, subjects.DeadLetter: &t.letters}
}

// copy is a tape that may be changed.
func (t *tape) copy() *tape {
	c := &tape{TB: t.TB, of: t.of}
	mine := c.streams()
	for s, list := range t.streams() {
		for _, m := range *list {
			h := nats.Header{}
			for k, v := range m.Header {
				h[k] = slices.Clone(v)
			}
			*mine[s] = append(*mine[s], &nats.Msg{Subject: m.Subject, Header: h, Data: slices.Clone(m.Data)})
		}
	}
	return c
}

// play writes the tape into the streams of another run, sequence by sequence.
func (t *tape) play(run subjects.Run) *world {
	w := &world{TB: t.TB, conn: t.of.conn, run: run, cfg: t.of.cfg, key: t.of.key}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	old, renamed := "."+string(t.of.run)+".", "."+string(run)+"."
	for _, list := range t.streams() {
		for _, m := range *list {
			subject := "hr" + renamed + strings.SplitN(m.Subject, old, 2)[1]
			if h := m.Header[subjects.HeaderSource]; len(h) > 0 {
				h[0] = run.StreamName(subjects.Rollouts)
			}
			_, err := w.conn.JS().PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data})
			w.must(err)
		}
	}
	return w
}

// entries calls fn with every entry of the ledger until it reports that it
// changed one.
func (t *tape) entries(fn func(e *subjects.Entry) bool) {
	t.Helper()
	changed := false
	for _, m := range t.ledger {
		var e subjects.Entry
		t.of.must(subjects.DecodeMessage(m.Data, &e))
		if fn(&e) {
			data, err := subjects.EncodeMessage(&e)
			t.of.must(err)
			m.Data, changed = data, true
		}
	}
	if !changed {
		t.Fatal("nothing was changed")
	}
}

// event changes the n-th event of a kind.
func event[T any](t *tape, kind subjects.WeightsEvent, n int, fn func(*T)) {
	t.Helper()
	for _, m := range t.weights {
		if !strings.HasSuffix(m.Subject, "."+string(kind)) {
			continue
		}
		if n--; n > 0 {
			continue
		}
		var e T
		t.of.must(subjects.DecodeMessage(m.Data, &e))
		fn(&e)
		data, err := subjects.EncodeMessage(&e)
		t.of.must(err)
		m.Data = data
		return
	}
	t.Fatalf("no such %s", kind)
}

// trajectory finds the message and place of a trajectory that is trained.
func (t *tape) trained() (m *nats.Msg, item int) {
	for _, l := range t.ledger {
		var e subjects.Entry
		t.of.must(subjects.DecodeMessage(l.Data, &e))
		if len(e.Batches) > 0 {
			member := e.Batches[0].Groups[1].Members[2]
			return t.rollouts[member.Seq-1], member.Index
		}
	}
	t.Fatal("no batch")
	return nil, 0
}

// wants says which discrepancy a report must have.
type wants struct {
	check string
	kind  audit.Kind
	text  string
}

func (w wants) in(r *audit.Report) error {
	if r.OK {
		return errors.New("the audit passed")
	}
	for _, d := range r.Discrepancies {
		if d.Check == w.check && d.Kind == w.kind && strings.Contains(d.Text, w.text) && d.Look != "" {
			return nil
		}
	}
	var found []string
	for _, d := range r.Discrepancies {
		found = append(found, fmt.Sprintf("%s %s %q", d.Check, d.Kind, d.Text))
	}
	return fmt.Errorf("no %s %s with %q among %d:\n%s", w.check, w.kind, w.text, len(found), strings.Join(found, "\n"))
}
