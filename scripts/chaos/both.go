package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// during are the faults that may come while another is under way.
var during = []func(context.Context, *world) (wound, error){
	kill("group-a"), kill("bridge"), kill("trainer"), kill("engine"), kill("sidecar"), kill("produce-a"), kill("nats"),
	hold("group-b"), hold("bridge"), hold("trainer"), hold("engine"), hold("produce-b"), hold("nats"), cutOff, slowDown,
}

// two lets one fault begin while another is under way.
func two(ctx context.Context, w *world) (wound, error) {
	first, second := w.pickOne(len(during)), w.pickOne(len(during)-1)
	if second >= first {
		second++
	}
	apart := w.between(0, 300*time.Millisecond)
	var hurt [2]wound
	var errs [2]error
	var crew sync.WaitGroup
	crew.Go(func() { hurt[0], errs[0] = during[first](ctx, w) })
	crew.Go(func() {
		if errs[1] = pause(ctx, apart); errs[1] == nil {
			hurt[1], errs[1] = during[second](ctx, w)
		}
	})
	crew.Wait()
	for i := range errs {
		if errors.Is(errs[i], errGone) { // the other fault had ended it already
			errs[i] = nil
		}
	}
	back := hurt[0].Back
	if hurt[1].Back.After(back) {
		back = hurt[1].Back
	}
	return whole(back, "%s; %s", hurt[0].Text, hurt[1].Text), errors.Join(errs[0], errs[1])
}

func twoGroupersOneClient(w *world) { twoGroupers(w); oneClient(w) }
