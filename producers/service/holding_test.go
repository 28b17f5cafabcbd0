package service_test

import (
	"testing"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
)

// reported is the newest report of p1 that satisfies ok.
func (s *stage) reported(what string, ok func(*subjects.Gauges) bool) {
	s.t.Helper()
	sglangtest.Eventually(s.t, what, func() bool {
		var g subjects.Gauges
		m, err := bus.Last(s.t.Context(), s.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject("produce", "p1"))
		return err == nil && subjects.DecodeMessage(m.Data, &g) == nil && ok(&g)
	})
}

func TestService_SaysWhichTasksItHolds(t *testing.T) {
	s := open(t)
	s.engine("e1")
	s.tasks(0, 5)
	door := make(chan struct{})
	defer close(door)
	cfg := s.config("p1")
	setup := cfg.Player.Environments["frozenlake"]
	setup.New = func() (envs.Environment, error) { return stuck{door}, nil }
	cfg.Player.Environments["frozenlake"] = setup
	s.start(cfg)
	s.reported("the tasks it holds", func(g *subjects.Gauges) bool {
		names := map[string]bool{}
		for _, l := range g.Leases {
			names[l.Task] = l.Age >= 0
		}
		return len(names) == 5 && names["t0/0/0"] && names["t4/0/0"] && g.Values["leases_held"] == 5
	})
}

func TestService_IsHeardOfWhileItWaitsForAnEngine(t *testing.T) {
	s := open(t)
	s.start(s.config("p1"))
	s.reported("a producer without an engine", func(g *subjects.Gauges) bool { return g.Values["engines_live"] == 0 && g.Values["slots"] == 8 })
}
