package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const runName = subjects.Run("chaos")

// plan is what a fault wants of the fleet before it starts, and when it strikes.
type plan struct {
	groupers int           // 1 or 2
	cluster  bool          // three servers, every stream three times
	volume   bool          // the store has a small volume of its own
	proxied  string        // the process that reaches NATS through a proxy
	step     subjects.Step // the trainer has been given this step ...
	after    time.Duration // ... for so long
}

// world is the fleet of one run: every process, and where its things are.
type world struct {
	o     *options
	dir   string
	plan  plan
	procs map[string]*proc
	order []*proc

	ports    map[string]int
	url      string // of NATS itself
	user     string
	password string
	proxy    *proxy
	volume   *volume
	shifted  map[string]time.Duration // processes whose clock is off

	drawing sync.Mutex // two faults may draw at once
	draw    *rand.Rand
}

func newWorld(o *options, dir string, draw *rand.Rand, p plan) *world {
	return &world{o: o, dir: dir, draw: draw, plan: p, procs: map[string]*proc{}, ports: map[string]int{},
		shifted: map[string]time.Duration{}}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// start starts the whole fleet.
func (w *world) start(ctx context.Context) error {
	for _, dir := range []string{"logs", "weights", "checkpoints"} {
		if err := os.MkdirAll(w.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(w.path("recipe.yaml"), w.recipe(), 0o644); err != nil {
		return err
	}
	if err := w.startNATS(ctx); err != nil {
		return err
	}
	if w.plan.proxied != "" {
		var err error
		if w.proxy, err = newProxy(strings.Split(w.url, ",")[0]); err != nil {
			return err
		}
	}
	if err := w.createRun(ctx); err != nil {
		return err
	}
	return w.startRoles()
}

// startNATS starts one server, or three, and learns how to reach them.
func (w *world) startNATS(ctx context.Context) error {
	if w.plan.cluster {
		return w.startCluster()
	}
	store := w.path("nats")
	if w.plan.volume {
		var err error
		if w.volume, err = newVolume(store); err != nil {
			return err
		}
	}
	credentials := w.path("nats.json")
	if err := w.self("nats", "nats", job{Store: store, Port: w.port("nats"), Credentials: credentials}); err != nil {
		return err
	}
	var c struct{ URL, User, Password string }
	err := await(ctx, 30*time.Second, func() error {
		text, err := os.ReadFile(credentials)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &c)
	})
	if err != nil {
		return fmt.Errorf("start nats: %w", err)
	}
	w.url, w.user, w.password = fmt.Sprintf("nats://127.0.0.1:%d", w.port("nats")), c.User, c.Password
	return nil
}

func (w *world) startCluster() error {
	nodes := []string{"n1", "n2", "n3"}
	w.user, w.password = natsUser, fmt.Sprintf("p%x", w.draw.Uint64())
	var urls []string
	for i, name := range nodes {
		routes := []int{w.port("route-" + name)}
		for _, other := range nodes {
			if other != name {
				routes = append(routes, w.port("route-"+other))
			}
		}
		j := job{Store: w.path(name), Port: w.port(name), Name: name, Password: w.password, Cluster: routes}
		if err := w.self(nodes[i], "node", j); err != nil {
			return err
		}
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", w.port(name)))
	}
	w.url = strings.Join(urls, ",")
	return nil
}

// connect connects to NATS itself.
func (w *world) connect(ctx context.Context) (*bus.Conn, error) {
	return bus.Connect(ctx, bus.Options{URL: w.url, User: w.user, Password: w.password, Name: "chaos"})
}

// createRun makes the run's streams.
func (w *world) createRun(ctx context.Context) error {
	replicas := 1
	if w.plan.cluster {
		replicas = 3
	}
	return await(ctx, time.Minute, func() error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // a cluster without a leader answers nobody
		defer cancel()
		conn, err := w.connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // nothing is pending
		return bus.EnsureStreams(ctx, conn, runName, subjects.StreamOptions{Replicas: replicas, RolloutBytes: rolloutBytes})
	})
}

const rolloutBytes = 256 << 20

// startRoles starts everything but NATS.
func (w *world) startRoles() error {
	name := func(i int) string { return string(rune('a' + i)) }
	for i := range max(w.plan.groupers, 1) {
		if err := w.headrace("group-"+name(i), "group", "--name", "group-"+name(i), "--recipe", w.path("recipe.yaml")); err != nil {
			return err
		}
	}
	feed := "unix:" + w.path("feed")
	engine := fmt.Sprintf("http://127.0.0.1:%d", w.port("engine"))
	err := errors.Join(
		w.headrace("bridge", "bridge", "--listen", feed, "--weights", w.path("weights"), "--checkpoints", w.path("checkpoints"),
			"--demos", "", "--model", w.path("model")),
		w.headrace("sidecar", "engine", "--name", "engine", "--engine-url", engine),
		w.headrace("produce-a", "produce", "--name", "produce-a"),
		w.headrace("produce-b", "produce", "--name", "produce-b"),
	)
	if w.o.python != "" {
		return errors.Join(err, w.startPython(feed))
	}
	return errors.Join(err,
		w.self("engine", "engine", job{Port: w.port("engine"), LatencyMS: 8}),
		w.self("trainer", "trainer", job{Feed: feed, Checkpoints: w.path("checkpoints"), Log: w.path("trainer.jsonl"), StepMS: 80}),
	)
}

// self starts this program in a role.
func (w *world) self(name, role string, j job) error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return w.launch(name, func() *exec.Cmd { return w.command(name, me, "chaos", "role", role, string(text)) })
}

// headrace starts the program under test in a role.
func (w *world) headrace(name, role string, args ...string) error {
	url := w.url
	if w.plan.proxied == name {
		url = w.proxy.url()
	}
	args = append([]string{role, "-v", "--run", string(runName), "--wait", "30s"}, args...)
	return w.launch(name, func() *exec.Cmd {
		cmd := w.command(name, w.o.binary, "headrace", args...)
		cmd.Env = append(cmd.Env, "NATS_URL="+url, "NATS_USER="+w.user, "NATS_PASSWORD="+w.password)
		return cmd
	})
}

// command is a binary, or the one built with a clock that can be off.
func (w *world) command(name, binary, program string, args ...string) *exec.Cmd {
	env := os.Environ()
	if offset := w.shifted[name]; offset != 0 {
		binary = filepath.Join(w.o.clock, program)
		env = append(env, fmt.Sprintf("CHAOS_CLOCK_OFFSET=%d", int(offset.Seconds())))
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = env
	return cmd
}

func (w *world) launch(name string, mk func() *exec.Cmd) error {
	p, err := launch(w.path("logs"), name, mk)
	if err == nil {
		w.procs[name] = p
		w.order = append(w.order, p)
	}
	return err
}

// stop ends the roles; then NATS too, when all is set.
func (w *world) stop(all bool) {
	var servers, others sync.WaitGroup
	for _, p := range w.order {
		if server := p.name == "nats" || len(p.name) == 2; !server {
			others.Go(func() { p.stop(4 * time.Second) })
		}
	}
	others.Wait()
	for _, p := range w.order {
		if all {
			servers.Go(func() { p.stop(4 * time.Second) })
		}
	}
	servers.Wait()
	if all && w.proxy != nil {
		w.proxy.close()
	}
	if all && w.volume != nil {
		w.volume.remove()
	}
}

// recipe is a run of a few seconds.
func (w *world) recipe() []byte {
	return fmt.Appendf(nil, `name: chaos
environment:
  name: frozenlake
  params: {map: random, size: 4, holes: 0.15, min_distance: 2, max_turns: 8}
dataset:
  eval_seeds: {first: 0, count: 4}
producer: {episodes: 6, call_timeout: 20s}
grouper:
  group_size: 4
  groups_per_batch: 4
  max_staleness: 1
  zero_variance: keep
  slot_retries: 20
  evaluation: {every: %d, tasks: 4}
bridge: {buckets: [160], rows: 16}
model: {d_model: 32, layers: 1, heads: 2, d_ff: 64}
trainer:
  steps: %d
  micro_batch: 16
  checkpoint_every: 3
  checkpoint_keep: 3
`, (w.o.steps+1)/2, w.o.steps)
}
