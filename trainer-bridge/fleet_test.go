package trainerbridge

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

func engines(ids ...string) (all []subjects.EngineRecord) {
	for _, id := range ids {
		all = append(all, subjects.EngineRecord{Engine: id})
	}
	return all
}

func TestFleet_WaitsForAsManyEnginesAsAskedFor(t *testing.T) {
	for _, c := range []struct {
		need           feed.Need
		acked          []string
		acks, timedOut bool
	}{
		{feed.NeedNone, nil, false, false},
		{feed.NeedQuorum, []string{"a", "b"}, true, false},
		{feed.NeedAll, []string{"a", "b"}, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(nil, testRun)
			f.register(engines("c", "a", "b"))
			f.hear(&subjects.AckEvent{Engine: "a", Version: 9, Incarnation: 1}) // of a trainer that is gone
			f.hear(&subjects.AckEvent{Engine: "c", Version: 3, Incarnation: 2, Error: "checksum"})
			if c.acks {
				go f.hear(&subjects.AckEvent{Engine: "a", Version: 3, Incarnation: 2})
				go f.hear(&subjects.AckEvent{Engine: "b", Version: 4, Incarnation: 2})
			}
			ok, err := f.wait(t.Context(), &feed.WaitWeights{Version: 3, Need: c.need, TimeoutS: 30}, 2)
			if err != nil || ok.TimedOut != c.timedOut || !slices.Equal(ok.Acked, c.acked) || len(ok.Missing) != 3-len(c.acked) {
				t.Errorf("%s: %+v %v", c.need, ok, err)
			}
		})
	}
}

func TestFleet_AllOfNoEngineIsNotEnough(t *testing.T) {
	if enough(feed.NeedAll, 0, 0) || enough(feed.NeedQuorum, 0, 0) || enough(feed.NeedQuorum, 1, 1) || !enough(feed.NeedQuorum, 2, 1) {
		t.Fatal("quorum is more than half, of one engine at least")
	}
}

func TestBridge_WaitWeightsHearsTheEngines(t *testing.T) {
	w := newWorld(t)
	c := w.serve(nil).dial(0)
	w.must(bus.PutEngine(w.ctx(), w.conn, testRun, &subjects.EngineRecord{Engine: "e1", Ready: true}))
	data, err := subjects.EncodeMessage(&subjects.AckEvent{Engine: "e1", Version: 0, Incarnation: 1})
	w.must(err)
	_, err = bus.Send(w.ctx(), w.conn, testRun.AckSubject("e1"), "ack", nil, data)
	w.must(err)
	ok, err := c.WaitWeights(feed.WaitWeights{Version: 0, Need: feed.NeedAll, TimeoutS: 20})
	if err != nil || ok.TimedOut || !slices.Equal(ok.Acked, []string{"e1"}) {
		t.Fatalf("%+v %v", ok, err)
	}
}
