package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestLatency_IsThePublishedTable(t *testing.T) {
	var all []float64
	sum := 0.0
	for episode := range uint64(8000) {
		for step := range uint64(6) {
			l := latency(1, episode, step).Seconds()
			all, sum = append(all, l), sum+l
		}
	}
	slices.Sort(all)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"median", all[len(all)/2], 0.020}, {"99th percentile", all[len(all)*99/100], 2.0}, {"mean", sum / float64(len(all)), 0.140},
	} {
		if math.Abs(c.got/c.want-1) > 0.05 {
			t.Errorf("%s is %.4f s, want %.4f", c.name, c.got, c.want)
		}
	}
}

// TestIdeal_AgreesWithTheReference compares with the event simulation that the
// reference orchestrator's figures were published with.
func TestIdeal_AgreesWithTheReference(t *testing.T) {
	for _, c := range []struct {
		live, episodes int
		wall, busy     float64
	}{{1000, 3000, 19.0, .648}, {4000, 8000, 35.1, .744}} {
		w := work{seed: 1, live: c.live, episodes: c.episodes, steps: 6, batch: 32, pass: 16 * time.Millisecond}
		wall, passes := ideal(w)
		busy := float64(passes) * w.pass.Seconds() / wall.Seconds()
		if math.Abs(wall.Seconds()-c.wall) > 0.1 || math.Abs(busy-c.busy) > 0.002 {
			t.Errorf("%d live: %.2f s and busy %.4f, want %.1f and %.3f", c.live, wall.Seconds(), busy, c.wall, c.busy)
		}
	}
}
