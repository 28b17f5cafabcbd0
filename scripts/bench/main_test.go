package main

import (
	"math"
	"slices"
	"testing"

	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
)

func TestPercentile_LiesBetweenOrderStatistics(t *testing.T) {
	v := []float64{30, 10, 20, 40}
	for p, want := range map[float64]float64{0: 10, .5: 25, 1: 40} {
		if got := percentile(v, p); got != want {
			t.Errorf("percentile %v: %v, want %v", p, got, want)
		}
	}
	if !math.IsNaN(percentile(nil, .5)) {
		t.Error("percentile of nothing is a number")
	}
}

func TestFigures_AllThatScriptsReadAreThere(t *testing.T) {
	for _, name := range []string{
		"e2e_512_sync1s", "e2e_2048_sync1s", "e2e_512_always", "e2e_2048_always", "redis_512_everysec", "redis_2048_everysec",
		"redis_512_always", "redis_2048_always", "jetstream_512_limit", "jetstream_2048_limit", "paced_p50", "paced_p99", "grouper",
		"grouper_bytes_per_open_group", "handoff_27mb", "engine_busy_of_ideal", "engine_cpu_per_step", "engine_rss",
	} {
		if !slices.Contains(names(), name) {
			t.Errorf("no figure %s", name)
		}
	}
}

func TestSample_IsAValidTrajectory(t *testing.T) {
	count, size := bundleShape(512)
	if count < 50 || size < 8*512 {
		t.Errorf("bundle of %d bodies of %d bytes", count, size)
	}
	trajectory := newSample(512, "p0").trajectory(7, 3)
	if err := trajectory.Check(vocab); err != nil {
		t.Fatal(err)
	}
	if e := trajectory.Index(); e.Trainable != 512 || e.Status != subjects.Succeeded {
		t.Errorf("index entry %+v", e)
	}
}

func TestJob_LimitMovesTheSameBytes(t *testing.T) {
	j := job{Length: 2048, Groups: 800, Producers: producers}
	each, size := j.limitMessages()
	_, body := bundleShape(2048)
	moved, want := each*size*producers, 800*groupSize*body
	if moved < want || float64(moved) > 1.02*float64(want) {
		t.Errorf("%d bytes, the line moves %d", moved, want)
	}
}

// BenchmarkSpeaker is what a producer's spans cost a trajectory, without sending them.
func BenchmarkSpeaker(b *testing.B) {
	r := spans.New("produce", "p0", 0)
	s := &speaker{Recorder: r, wait: r.Name("wait for task"), parse: r.Name("parse"), publish: r.Name("publish"), acknowledge: r.Name("acknowledge")}
	t := newSample(512, "p0").trajectory(7, 3)
	for b.Loop() {
		e := s.episode(1, s.now(), t)
		s.played(e, 1, e.Now())
	}
}
