package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/natstest"
)

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// served waits until the page of an address has a text.
func served(ctx context.Context, t *testing.T, addr string, want ...string) {
	t.Helper()
	page := ""
	for {
		res, err := http.Get("http://" + addr + "/metrics")
		if err == nil {
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			page = string(text)
		}
		missing := ""
		for _, w := range want {
			if !strings.Contains(page, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s has no %q: %v\n%s", addr, missing, err, page)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestMetrics_OfRolesAndOfTheRun: each with the credentials of its role, on a
// server that checks them.
func TestMetrics_OfRolesAndOfTheRun(t *testing.T) {
	ctx := limited(t)
	f := newFleet(ctx, t)
	roles := newStack(zerolog.Nop())
	defer roles.stop()
	start := func(name, file string, run func(context.Context, Join) error) string {
		join := f.join(file)
		join.Metrics = free(t)
		roles.start(name, func(ctx context.Context) error { return run(ctx, join) })
		return join.Metrics
	}
	grouper := start("group", "grouper", func(ctx context.Context, j Join) error { return Group(ctx, j, "grouper") })
	bridge := start("bridge", "trainer", func(ctx context.Context, j Join) error {
		return Bridge(ctx, j, BridgeOptions{Name: "b1", Listen: []string{"unix:" + filepath.Join(f.dir, "m.sock")}, Weights: f.dir, Checkpoints: f.dir})
	})
	producer := start("produce", "producers/p01", func(ctx context.Context, j Join) error {
		return Produce(ctx, j, ProduceOptions{Name: "p01", Episodes: 7})
	})
	engine := start("engine", "engine", func(ctx context.Context, j Join) error {
		return Engine(ctx, j, EngineOptions{Name: "engine", URL: "http://127.0.0.1:1"})
	})
	whole := free(t)
	roles.start("metrics", func(ctx context.Context) error {
		return Metrics(ctx, Source{Bus: f.join("viewer").Bus, Remote: true, Log: zerolog.Nop()}, testRun, MetricsOptions{Addr: whole, Roles: true})
	})
	served(ctx, t, producer, `headrace_producer_slots{run="lake-1"} 7`, `headrace_bus_connected{run="lake-1"} 1`, "go_goroutines", "headrace_build_info{")
	served(ctx, t, grouper, `headrace_groups_open{run="lake-1"}`)
	served(ctx, t, bridge, `headrace_bridge_trainers{run="lake-1"} 0`)
	served(ctx, t, engine, `headrace_engine_weight_syncs_total{run="lake-1"} 0`)
	served(ctx, t, whole, `headrace_step{at="max",run="lake-1"} 3`, `headrace_groups_issued_total{kind="train",run="lake-1"}`, `headrace_producer_slots{run="lake-1"} 7`)
}

func TestMetrics_ARoleWhoseAddressIsTakenSaysSo(t *testing.T) {
	m, ctx := newMember(t, malformedRecipe), limited(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = m.exported(ctx, l.Addr().String(), nil, func() error { t.Error("the role runs"); return nil })
	if err == nil || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("%v, want what to do", err)
	}
	ran := false
	if err := m.exported(ctx, "", nil, func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("%v: a role without metrics does not run", err)
	}
}

func TestMetrics_OfARunThatIsNotThere(t *testing.T) {
	s := natstest.Loopback(t)
	err := Metrics(limited(t), Source{Bus: s.RemoteOptions(), Remote: true, Log: zerolog.Nop()}, "nowhere", MetricsOptions{Addr: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), "headrace runs") {
		t.Errorf("%v, want what to do", err)
	}
}
