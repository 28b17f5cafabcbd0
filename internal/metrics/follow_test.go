package metrics

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// TestTap_HearsARoleWithTheRightsOfThatRole: on a server that checks them.
func TestTap_HearsARoleWithTheRightsOfThatRole(t *testing.T) {
	s := natstest.NewSecure(t, run)
	if err := bus.EnsureStreams(t.Context(), s.Connect(t, "admin"), run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, role, instance, gauge, family string }{
		{"producers/p01", RoleProducer, "p01", "calls", "headrace_generate_calls_total"},
		{"engine", RoleEngine, "engine", "syncs", "headrace_engine_weight_syncs_total"},
		{"trainer", RoleBridge, "host-1", "batches_total", "headrace_bridge_batches_total"},
		{"grouper", RoleGrouper, "host-1", "produced", "headrace_trajectories_produced_total"},
	} {
		conn := s.Connect(t, c.file)
		p := &Page{Run: run, Reports: NewReports()}
		stop, err := Tap(conn, run, []Own{{c.role, c.instance}}, p.Reports)
		if err != nil {
			t.Fatal(err)
		}
		publish(t, conn, run.TelemetrySubject(c.role, c.instance), &subjects.Gauges{V: 1, Role: c.role, Instance: c.instance, Values: map[string]float64{c.gauge: 5}})
		eventually(t, c.role+" hears itself", func() bool { return lines(t, p, conn)[c.family] == 5 })
		stop()
	}
}

// TestFollow_ReadsTheLogFromItsStartAndWhoReports: and what is garbage does not stop it.
func TestFollow_ReadsTheLogFromItsStartAndWhoReports(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	if err := bus.EnsureStreams(t.Context(), c, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	body := trajectory(t)
	send := func(subject string, hdr nats.Header, data []byte) {
		t.Helper()
		if _, err := c.JS().PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: hdr, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	entry := subjects.Entry{V: 1, Verdicts: []subjects.Verdict{{Group: "t0", Outcome: subjects.Kept}}}
	data, err := subjects.EncodeMessage(&entry)
	if err != nil {
		t.Fatal(err)
	}
	send(run.LedgerSubject(), nil, []byte{0xc1})
	send(run.LedgerSubject(), nil, data)
	commit, err := subjects.EncodeMessage(&subjects.CommitEvent{V: 1, Step: 1, TrainSeconds: 1, WaitSeconds: 2})
	if err != nil {
		t.Fatal(err)
	}
	send(run.WeightsSubject(subjects.EventCommit), nil, commit)
	send(run.RolloutSubject("p"), body.Header, body.Data)
	page := func() (*Page, func()) {
		p := &Page{Run: run, Log: NewLog([]string{"frozenlake"}, 0), Reports: NewReports()}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Follow(ctx, c, run, p.Log, p.Reports) }()
		return p, func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	}
	const episodes, groups, waited, looked = "headrace_episodes_total,environment=frozenlake,status=succeeded", "headrace_groups_total,outcome=kept", "headrace_trainer_wait_seconds_total", "headrace_episodes_sampled_total"
	p, stop := page()
	eventually(t, "the log so far", func() bool {
		got := lines(t, p, c)
		return got[episodes] == 1 && got[groups] == 1 && got[waited] == 2 && got["headrace_bus_stream_messages,stream=LEDGER"] == 2
	})
	send(run.RolloutSubject("p"), nats.Header{subjects.HeaderIndex: {"garbage"}}, []byte("garbage"))
	send(run.RolloutSubject("p"), nats.Header{subjects.HeaderIndex: {"1 train t0 3 1 0 succeeded 0.75 1 10 10 4 11 12 0 frozenlake 0 619 519be5a4"}}, []byte("no body"))
	send(run.RolloutSubject("p"), body.Header, body.Data)
	publish(t, c, run.TelemetrySubject("produce", "p"), &subjects.Gauges{V: 1, Role: "produce", Instance: "q", Values: map[string]float64{"calls": 50}})
	publish(t, c, run.TelemetrySubject("produce", "p"), &subjects.Gauges{V: 1, Role: "produce", Instance: "p", Values: map[string]float64{"calls": 4}})
	if err := c.NC().Publish(run.TelemetrySubject("produce", "p"), []byte{0xff}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is new, and one body looked into", func() bool {
		got := lines(t, p, c)
		return got[episodes] == 3 && got[looked] == 1 && got["headrace_generate_calls_total"] == 4 && got["headrace_telemetry_reports_ignored_total"] == 2
	})
	stop()
	p, stop = page() // another exporter, or the same one started again
	eventually(t, "the same counts", func() bool {
		got := lines(t, p, c)
		return got[episodes] == 3 && got[groups] == 1 && got[waited] == 2
	})
	stop()
}

// TestFollow_WithAViewersRights: who may only look may serve the numbers.
func TestFollow_WithAViewersRights(t *testing.T) {
	s := natstest.NewSecure(t, run)
	admin, viewer := s.Connect(t, "admin"), s.Connect(t, "viewer")
	if err := bus.EnsureStreams(t.Context(), admin, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	p := &Page{Run: run, Log: NewLog([]string{"frozenlake"}, 0), Reports: NewReports()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Follow(ctx, viewer, run, p.Log, p.Reports) }()
	eventually(t, "it looks at the streams", func() bool {
		_, ok := lines(t, p, viewer)["headrace_bus_stream_messages,stream=TASKS"]
		return ok
	})
	m := trajectory(t)
	m.Subject = run.RolloutSubject("p")
	if _, err := admin.JS().PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything comes by", func() bool {
		publish(t, admin, run.TelemetrySubject("produce", "p"), &subjects.Gauges{V: 1, Role: "produce", Instance: "p", Values: map[string]float64{"calls": 4}})
		got := lines(t, p, viewer)
		return got["headrace_episodes_total,environment=frozenlake,status=succeeded"] == 1 && got["headrace_generate_calls_total"] == 4 && got["headrace_episodes_sampled_total"] == 1
	})
	cancel()
	<-done
}

// trajectory is a message with one.
func trajectory(t *testing.T) *nats.Msg {
	t.Helper()
	x := &subjects.Trajectory{Kind: subjects.Train, Group: "t0", Environment: "frozenlake", Status: subjects.Succeeded, Reward: 1, Started: 1e18, Finished: 1e18 + 2e9,
		Segments: []subjects.Segment{{Tokens: []int32{1, 2, 3}, Logprobs: []float32{-.5}, Versions: []subjects.VersionSpan{{Start: 2, End: 3, Version: 1}}, LossMask: []subjects.Span{{Start: 2, End: 3}}, Parent: -1}}}
	var body bytes.Buffer
	if err := subjects.EncodeTrajectory(&body, x); err != nil {
		t.Fatal(err)
	}
	e := x.Index()
	e.Length, e.Checksum = body.Len(), subjects.Checksum(body.Bytes())
	return &nats.Msg{Header: nats.Header{subjects.HeaderIndex: {e.String()}, subjects.HeaderProducer: {"p"}, subjects.HeaderCounter: {"1"}}, Data: body.Bytes()}
}
