package sidecar

import (
	"sync"

	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/subjects"
)

// The lanes of an engine's spans.
const (
	laneBatches int32 = iota // the device calls of our own engine
	laneSyncs                // what the sidecar does to it
)

// sight is what the sidecar shows of itself and its engine: it outlives no
// sidecar and is read by the observer.
type sight struct {
	*spans.Recorder
	batch, pause, load, verify, resume spans.Name
	version, rows, tokens, prefill     spans.Name

	mu          sync.Mutex
	up, paused  bool
	lives       int // times that the engine came up
	serves      subjects.PolicyVersion
	syncs       int
	syncSeconds float64
}

func newSight(engine string) *sight {
	r := spans.New("engine", engine, 0)
	return &sight{Recorder: r, serves: subjects.NoVersion,
		batch: r.Name("batch"), pause: r.Name("pause"), load: r.Name("load"), verify: r.Name("verify"), resume: r.Name("resume"),
		version: r.Name("version"), rows: r.Name("rows"), tokens: r.Name("tokens"), prefill: r.Name("prefill")}
}

// found notes what the engine said when it was asked what it serves.
func (s *sight) found(up bool, version subjects.PolicyVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if up && !s.up {
		s.lives++
	}
	s.up, s.serves = up, version
}

func (s *sight) pauses(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
}

// synced counts a sync, one that failed as well.
func (s *sight) synced(a *subjects.AckEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs++
	s.syncSeconds += a.PauseSeconds + a.LoadSeconds + a.VerifySeconds + a.ResumeSeconds
}

// life is which life of the engine this is, 0 before it first answered.
func (s *sight) life() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives
}

// values are the gauges of what the sidecar knows itself.
func (s *sight) values() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := map[string]float64{"up": number(s.up), "paused": number(s.paused), "syncs": float64(s.syncs), "sync_seconds": s.syncSeconds}
	if s.serves != subjects.NoVersion {
		v["version"] = float64(s.serves)
	}
	return v
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// stopwatch times the phases of a sync: it names what ended now, records it and
// returns its seconds.
func (s *sight) stopwatch(version subjects.PolicyVersion) func(spans.Name) float64 {
	last := s.Now()
	return func(phase spans.Name) float64 {
		begun := last
		last = s.Now()
		s.Record(phase, laneSyncs, begun, last, spans.Arg{Key: s.version, Value: float64(version)})
		return float64(last-begun) / 1e9
	}
}

// drew records the engine's device calls, in this process's time.
func (s *sight) drew(b *sglang.Batches) {
	for i := range b.Batches {
		x := &b.Batches[i]
		start := x.Start + int64(b.Offset)
		args := []spans.Arg{{Key: s.rows, Value: float64(x.Rows)}, {Key: s.tokens, Value: float64(x.Tokens)}, {Key: s.prefill, Value: 1}}
		if !x.Prefill { // most are not
			args = args[:2]
		}
		s.Record(s.batch, laneBatches, start, start+x.Duration, args...)
	}
}
