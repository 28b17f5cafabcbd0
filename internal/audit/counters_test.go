package audit

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

// messages is what one process of a producer leaves in a stream: up to flight
// messages are out at a time, stored and acknowledged in any order; of a named
// life one in lost is given up and never stored.
func messages(r *rand.Rand, n, flight, lost int, life string) (stream []*bundle) {
	type sent struct {
		counter uint64
		header  nats.Header
	}
	var out, stored []sent
	counter, acked := uint64(0), uint64(0)
	for counter < uint64(n) || len(out) > 0 {
		switch k := r.IntN(4); {
		case counter < uint64(n) && len(out)+len(stored) < flight && k < 2:
			counter++
			h := nats.Header{subjects.HeaderCounter: {strconv.FormatUint(counter, 10)}}
			if life != "" {
				h.Set(subjects.HeaderLife, subjects.Life(life, acked))
			}
			out = append(out, sent{counter, h})
		case len(out) > 0 && k == 2:
			i := r.IntN(len(out))
			if s := out[i]; life == "" || r.IntN(lost) > 0 {
				stream = append(stream, &bundle{seq: uint64(len(stream) + 1), header: s.header, admission: subjects.Admission{Producer: "p1"}})
				stored = append(stored, s)
			}
			out = slices.Delete(out, i, i+1)
		case len(stored) > 0 && k == 3:
			acked++
			stored = stored[1:]
		}
	}
	return stream
}

func count(stream []*bundle, holes ...int) *Report {
	a := &auditor{report: newReport("r", 10, nil)}
	c := newCounters(a)
	for i, b := range stream {
		if slices.Contains(holes, i) {
			c.hole()
		}
		c.message(b)
	}
	c.end()
	return a.report
}

func TestCounters_PurgedInTheMiddleOfAFlightIsNoLoss(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		life := []string{"", "life"}[seed%2]
		stream := messages(r, 3000, 1+r.IntN(100), 50, life)
		for range 20 {
			from := r.IntN(len(stream))
			if got := count(stream[from:], 0); got.Lost > 0 {
				t.Fatalf("seed %d, from %d: %+v", seed, from, got.Discrepancies)
			}
			to := from + r.IntN(len(stream)-from)
			if got := count(slices.Concat(stream[:from], stream[to:]), from); got.Lost > 0 {
				t.Fatalf("seed %d, %d to %d: %+v", seed, from, to, got.Discrepancies)
			}
		}
	}
}

func TestCounters_LossIsSeenAndOnceSettledAlsoBehindAHole(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		stream := messages(r, 6000, 1, 1<<40, "life")
		gone := settling + 1000 + r.IntN(1000)
		cut := slices.Delete(slices.Clone(stream), gone, gone+3)
		if got := count(cut); got.Lost != 3 {
			t.Errorf("seed %d: %d lost of 3", seed, got.Lost)
		}
		if got := count(cut[500:], 0); got.Lost != 3 {
			t.Errorf("seed %d: %d lost of 3 behind a hole", seed, got.Lost)
		}
	}
}
