package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// childStore tells this test binary to be a bus, and where its store is;
// childSync how often it syncs.
const (
	childStore = "FAULTS_BUS_STORE"
	childSync  = "FAULTS_BUS_SYNC"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childStore); dir != "" {
		os.Exit(beBus(dir))
	}
	os.Exit(m.Run())
}

// beBus serves a store until it is killed, and prints how to reach it.
func beBus(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: dir, Sync: os.Getenv(childSync)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Shutdown()
	o := s.RemoteOptions()
	if json.NewEncoder(os.Stdout).Encode(map[string]string{"url": o.URL, "user": o.User, "password": o.Password}) != nil {
		return 1
	}
	<-ctx.Done()
	return 0
}

// process is a bus as a process of its own.
type process struct {
	cmd  *exec.Cmd
	conn *bus.Conn
}

func startBus(t *testing.T, dir, sync string) *process {
	t.Helper()
	b := &process{cmd: exec.Command(os.Args[0])}
	b.cmd.Env, b.cmd.Stderr = append(os.Environ(), childStore+"="+dir, childSync+"="+sync), os.Stderr
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kill)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var at struct{ URL, User, Password string }
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	if err == nil {
		b.conn, err = bus.Connect(t.Context(), bus.Options{URL: at.URL, User: at.User, Password: at.Password})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.conn.Close() })
	return b
}

// kill is kill -9.
func (b *process) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// A hundred trajectories that were acknowledged, then kill -9 of the bus, with
// the settings that `headrace up` has: there are a hundred, and they train.
func TestFault_F14_AKilledBusHasEverythingThatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	b := startBus(t, dir, "always")
	p := &pipeline{TB: t, conn: b.conn}
	p.must(bus.EnsureStreams(t.Context(), b.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	pub := p.publisher("p1")
	for n := range 25 {
		p.publish(pub, subjects.TrainGroup(uint64(n)), 0, 1, 2, 3)
	}
	b.kill()

	again := startBus(t, dir, "always")
	state, err := bus.StreamState(t.Context(), again.conn, run, subjects.Rollouts)
	p.must(err)
	if state.Msgs != 100 {
		t.Fatalf("%d messages of 100 are left", state.Msgs)
	}
	again.kill()

	after := open(t, natstest.Start(t, bus.ServerOptions{StoreDir: dir, Port: -1}), external(), 0)
	c := after.whole()
	for step := range subjects.Step(12) {
		if b, _ := after.train(c); b.Step != step+1 || b.Rows != 8 {
			t.Errorf("step %d has %d rows", b.Step, b.Rows)
		}
	}
}
