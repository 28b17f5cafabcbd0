package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// What this test binary is when it is started as a child: a bus on a store, synced
// so often, or the grouper of the run at an address.
const (
	childStore = "FAULTS_BUS_STORE"
	childSync  = "FAULTS_BUS_SYNC"
	childGroup = "FAULTS_GROUPER_OF"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childStore); dir != "" {
		os.Exit(beBus(dir))
	}
	if at := os.Getenv(childGroup); at != "" {
		os.Exit(beGrouper(at))
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
	if json.NewEncoder(os.Stdout).Encode(address{o.URL, o.User, o.Password}) != nil {
		return 1
	}
	<-ctx.Done()
	return 0
}

// address is how children tell each other where the bus is.
type address struct{ URL, User, Password string }

// beGrouper groups until it is killed.
func beGrouper(at string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var a address
	if json.Unmarshal([]byte(at), &a) != nil {
		return 1
	}
	conn, err := bus.Connect(ctx, bus.Options{URL: a.URL, User: a.User, Password: a.Password})
	if err == nil {
		err = service.Run(ctx, service.Config{Conn: conn, Run: run, Grouper: external(), Writer: "child", Log: zerolog.Nop()})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
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
	var at address
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

// A grouper that stands still, as a machine that swaps makes it: it answers
// nothing and fails nothing. The trainer hears which stage it is, and goes on with it.
func TestComplaint_9_AStageThatHangsIsNamed(t *testing.T) {
	t.Parallel()
	server := natstest.Loopback(t)
	p := open(t, server, external(), 0)
	o := server.RemoteOptions()
	at, err := json.Marshal(address{o.URL, o.User, o.Password})
	p.must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childGroup+"="+string(at)), os.Stderr
	p.must(cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	pub := p.publisher("p1")
	p.publish(pub, "a", 0, 1, 2, 3)
	p.publish(pub, "b", 0, 1, 2, 3)
	where, _ := p.bridge(nil)
	c := p.dial(where, 0)
	p.train(c)

	p.must(cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it did not stop: %v", err)
	}
	p.publish(pub, "c", 0, 1, 2, 3)
	p.publish(pub, "d", 0, 1, 2, 3)
	var told time.Time
	c.OnNotice = func(n feed.Notice) {
		if n.Code == subjects.GrouperGone && n.Stage == subjects.StageGrouper && told.IsZero() {
			told = time.Now()
			p.must(cmd.Process.Signal(syscall.SIGCONT))
		}
	}
	b, _, err := c.Next() // which does not come before the grouper goes on
	p.must(err)
	if took := time.Since(told); told.IsZero() || b.Step != 2 || took > 10*time.Second {
		t.Errorf("step %d came %s after the trainer was told", b.Step, took)
	}
}
