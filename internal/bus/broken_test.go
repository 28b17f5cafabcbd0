package bus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// The client library waits for the answer of a request whose connection broke
// until time is up, which held every follower back for 15 s after a restart.
func TestConn_QuestionsEndWithTheirConnection(t *testing.T) {
	s := natstest.Loopback(t)
	ensureRun(t, natstest.Connect(t, s))
	proxy := natstest.NewProxy(t, s)
	c := proxy.Connect(t)
	proxy.CutAfterNext("$JS.API.STREAM.INFO." + run.StreamName(subjects.Rollouts))
	begun := time.Now()
	_, err := bus.StreamState(t.Context(), c, run, subjects.Rollouts)
	if took := time.Since(begun); !errors.Is(err, bus.ErrTimeout) || took > 5*time.Second {
		t.Errorf("%v after %s, want ErrTimeout at once", err, took)
	}
	if _, err := bus.StreamState(t.Context(), c, run, subjects.Rollouts); err != nil && !errors.Is(err, bus.ErrTimeout) {
		t.Errorf("the next question: %v", err)
	}
}

// A cluster that elects its leader answers nobody meanwhile: a question that is
// asked once costs the whole time limit.
func TestConn_AsksAgainWhenNoAnswerComes(t *testing.T) {
	s := natstest.Loopback(t)
	ensureRun(t, natstest.Connect(t, s))
	proxy := natstest.NewProxy(t, s)
	c := proxy.Connect(t)
	proxy.LoseAfterNext("$JS.API.STREAM.INFO." + run.StreamName(subjects.Rollouts))
	begun := time.Now()
	_, err := bus.StreamState(t.Context(), c, run, subjects.Rollouts)
	if took := time.Since(begun); err != nil || took > 10*time.Second || took < time.Second {
		t.Errorf("%v after %s, want an answer after a few seconds", err, took)
	}
}

func TestSend_LostAckIsNotWaitedForLong(t *testing.T) {
	s := natstest.Loopback(t)
	ensureRun(t, natstest.Connect(t, s))
	proxy := natstest.NewProxy(t, s)
	c := proxy.Connect(t)
	subject := run.WeightsSubject(subjects.EventCommit)
	proxy.LoseAfterNext(subject)
	begun := time.Now()
	seq, err := bus.Send(t.Context(), c, subject, "id", nil, []byte("x"))
	if took := time.Since(begun); err != nil || seq != 1 || took > 12*time.Second {
		t.Errorf("sequence %d, %v after %s", seq, err, took)
	}
}

// An engine goes on serving while the bus is away, so its entry must be there
// when the bus is back.
func TestEngines_OutliveTheServer(t *testing.T) {
	r := natstest.NewRestartable(t)
	c := r.Connect(t)
	ensureRun(t, c)
	if err := bus.PutEngine(t.Context(), c, run, &subjects.EngineRecord{V: subjects.SchemaVersion, Engine: "e1", URL: "http://e1"}); err != nil {
		t.Fatal(err)
	}
	r.Restart(t)
	engines, err := bus.Engines(t.Context(), r.Connect(t), run)
	if err != nil || len(engines) != 1 || engines[0].Engine != "e1" {
		t.Errorf("engines %v, %v; want e1", engines, err)
	}
}
