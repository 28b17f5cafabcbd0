package export

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Event is what the trainer or an engine said, or an evaluation that finished: a
// line of the JSONL form, behind the trajectories. Name is that of the event's
// subject in WEIGHTS (subjects.WeightsEvent), "ack" or "evaluation".
type Event struct {
	Name string          `json:"event"`
	Body json.RawMessage `json:"body"`
}

const (
	eventAck        = "ack"
	eventEvaluation = "evaluation"
)

// eventStart is how a line that is an event begins, and no other does.
const eventStart = `{"event":`

// EventWriter is a [Writer] of a form that has a place for events.
type EventWriter interface {
	WriteEvent(*Event) error
}

// commit is a commit whose metrics need not be finite: a loss that became NaN is
// what somebody will look for.
type commit struct {
	subjects.CommitEvent
	Metrics map[string]metric `json:"metrics"`
}

// metric is a float that JSON can hold: a string where it is not finite.
type metric float64

func (m metric) MarshalJSON() ([]byte, error) {
	if v := float64(m); math.IsNaN(v) || math.IsInf(v, 0) {
		return json.Marshal(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return json.Marshal(float64(m))
}

func (m *metric) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*m = metric(v)
	return err
}

// body is an event's type by its name; nil for names that are not known.
func body(name string) any {
	switch name {
	case string(subjects.EventCommit):
		return &commit{}
	case string(subjects.EventVersion):
		return &subjects.VersionEvent{}
	case string(subjects.EventCheckpoint):
		return &subjects.CheckpointEvent{}
	case string(subjects.EventResumed):
		return &subjects.ResumedEvent{}
	case eventAck:
		return &subjects.AckEvent{}
	case eventEvaluation:
		return &subjects.EvalResult{}
	}
	return nil
}

func newEvent(name string, b any) (*Event, error) {
	data, err := json.Marshal(b)
	return &Event{Name: name, Body: data}, err
}

// events hands over all that is in WEIGHTS, and the evaluations of the ledger.
// What cannot be read is left out: nobody could use it.
func events(ctx context.Context, c *bus.Conn, run subjects.Run, to EventWriter) (n uint64, err error) {
	put := func(name string, b any) error {
		e, err := newEvent(name, b)
		if err != nil {
			return nil //nolint:nilerr // a time that is no number: see above
		}
		n++
		return to.WriteEvent(e)
	}
	prefix := strings.TrimSuffix(run.Filter(subjects.Weights), ">")
	err = readAll(ctx, c, run, subjects.Weights, func(m *bus.Msg) error {
		name, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, prefix), ".")
		b := body(name)
		if k, is := b.(*commit); is {
			if subjects.DecodeMessage(m.Data, &k.CommitEvent) != nil {
				return nil
			}
			k.Metrics = map[string]metric{}
			for key, v := range k.CommitEvent.Metrics {
				k.Metrics[key] = metric(v)
			}
			return put(name, k)
		}
		if b == nil || subjects.DecodeMessage(m.Data, b) != nil {
			return nil
		}
		return put(name, b)
	})
	if err != nil {
		return n, err
	}
	return n, readAll(ctx, c, run, subjects.Ledger, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return fmt.Errorf("read ledger entry %d: %w", m.Seq, err)
		}
		for i := range e.Evals {
			if err := put(eventEvaluation, &e.Evals[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteEvent takes the next event.
func (i *Importer) WriteEvent(e *Event) error {
	b := body(e.Name)
	if b == nil {
		return fmt.Errorf("event %q: this build knows none", e.Name)
	}
	if err := json.Unmarshal(e.Body, b); err != nil {
		return fmt.Errorf("event %s: %w", e.Name, err)
	}
	subject := i.run.WeightsSubject(subjects.WeightsEvent(e.Name))
	switch v := b.(type) {
	case *subjects.EvalResult:
		i.ledger.evals = append(i.ledger.evals, *v)
		return nil
	case *subjects.AckEvent:
		if !subjects.ValidToken(v.Engine) {
			return fmt.Errorf("event %s: engine %q: want a name without spaces, dots and wildcards", e.Name, v.Engine)
		}
		subject = i.run.AckSubject(v.Engine)
	case *commit:
		v.CommitEvent.Metrics = map[string]float64{}
		for key, x := range v.Metrics {
			v.CommitEvent.Metrics[key] = float64(x)
		}
		b = &v.CommitEvent
	}
	data, err := subjects.EncodeMessage(b)
	if err == nil {
		i.events++
		_, err = bus.Send(i.ctx, i.conn, subject, fmt.Sprintf("%s/event/%d", ImportProducer, i.events), nil, data)
	}
	if err != nil {
		return fmt.Errorf("import into %s: %w", i.run, err)
	}
	return nil
}
