package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

func TestService_RecordsWhatTurnsDoNotSay(t *testing.T) {
	s := open(t)
	s.engine("e1")
	s.tasks(0, 5)
	s.start(s.config("p1"))
	s.awaitDone(5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, missing := errors.New("all of them"), map[string]bool{"publish": true, "acknowledge": true, "parse": true, "wait for task": true}
	err := bus.Follow(ctx, s.conn, run.StreamName(subjects.Telemetry), run.SpanSubject("produce", "p1"), 1, func(m *bus.Msg) error {
		var batch subjects.SpanBatch
		if err := subjects.DecodeMessage(m.Data, &batch); err != nil {
			return err
		}
		spans, err := batch.Spans()
		if err != nil {
			return err
		}
		for _, x := range spans {
			delete(missing, x.Name)
			ack := x.Name == "acknowledge"
			if (x.Flow == 0) != (ack || x.Name == "wait for task") || x.Lane < 0 || (x.Lane >= 8) != ack {
				t.Errorf("%+v", x)
			}
		}
		if batch.Uncertainty <= 0 || batch.Dropped != 0 {
			t.Errorf("the clock was not measured, or spans found no room: %+v", batch)
		}
		if len(missing) == 0 {
			return all
		}
		return nil
	})
	if !errors.Is(err, all) {
		t.Errorf("%v; missing %v", err, missing)
	}
}
