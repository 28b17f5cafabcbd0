//go:build whole

package flowtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// order is what a process of the test binary is told to be.
type order struct {
	Role                string
	URL, User, Password string
	Spec                spec
	Held, Body, Tokens  int // of the publisher: HeldBytes, bytes of a huge body, tokens of a long one
	Messages            int // of the follower
	Store               string
	MaxPayload          int32 // of the server
}

const orderEnv = "HEADRACE_FLOWTEST"

func TestMain(m *testing.M) {
	text := os.Getenv(orderEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.obey()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// obey is a role until it ends or is told to.
func (o *order) obey() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := zerolog.New(os.Stderr)
	if o.Role == "server" {
		return o.serve(ctx)
	}
	c, err := bus.Connect(ctx, bus.Options{URL: o.URL, User: o.User, Password: o.Password, Log: log})
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // what it said is acknowledged
	switch o.Role {
	case "grouper":
		err = o.Spec.grouper(ctx, c, log)
	case "bridge":
		err = o.Spec.bridge(ctx, c, log)
	case "producer":
		err = o.Spec.producer(ctx, c, "p1", log)
	case "publisher":
		err = o.Spec.publisher(ctx, c, o.Held, func(t *subjects.Task) *subjects.Trajectory {
			if o.Body > 0 && t.Slot == 0 {
				return huge(t, o.Body)
			}
			return sampled(t, o.Tokens)
		})
	case "trainer":
		err = o.Spec.trainer(ctx, func(subjects.Step) error { return nil }, o.train)
	case "follower":
		err = o.follow(ctx, c)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serve is a server for the other processes.
func (o *order) serve(ctx context.Context) error {
	s, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: o.Store, MaxPayload: o.MaxPayload, Sync: "10m"})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	remote := s.RemoteOptions()
	fmt.Println("serving", remote.URL, remote.User, remote.Password)
	<-ctx.Done()
	return nil
}

// train looks at the batch as a trainer does, for as long as one does.
func (o *order) train(b taken) error {
	if o.Body > 0 {
		if err := b.equal(sampled(&subjects.Task{Slot: 0}, 64), sampled(&subjects.Task{Slot: 1}, o.Tokens)); err != nil {
			return err
		}
	}
	fmt.Println("step", b.Step, "rows", b.Rows, "tokens", b.Tokens)
	<-time.After(o.Spec.Train) // the step itself
	return nil
}

// follow reads bodies in order, all of them.
func (o *order) follow(ctx context.Context, c *bus.Conn) error {
	next := uint64(1)
	err := bus.Follow(ctx, c, run.StreamName(subjects.Rollouts), "", 1, func(m *bus.Msg) error {
		if m.Seq != next || m.Skipped > 0 {
			return fmt.Errorf("message %d after a gap of %d, want %d", m.Seq, m.Skipped, next)
		}
		fmt.Println("message", m.Seq)
		if next++; int(m.Seq) == o.Messages {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// process is a role in a process of its own.
type process struct {
	*testing.T
	role  string
	cmd   *exec.Cmd
	lines chan string // of its output
	errs  *lines
	done  chan error
}

func (w *world) process(t *testing.T, o order) *process {
	t.Helper()
	o.URL, o.User, o.Password = w.remote.URL, w.remote.User, w.remote.Password
	text, err := json.Marshal(o)
	w.must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	return launch(t, o.Role, cmd)
}

// launch starts a process that ends with the test.
func launch(t *testing.T, role string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{T: t, role: role, cmd: cmd, lines: make(chan string, 1<<16), errs: &lines{}, done: make(chan error, 1)}
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
		p.done <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
	})
	return p
}

// newWorldApart is a run on a server in a process of its own.
func newWorldApart(t *testing.T, maxPayload int32) (*world, *process) {
	t.Helper()
	w := &world{TB: t}
	server := w.process(t, order{Role: "server", Store: t.TempDir(), MaxPayload: maxPayload})
	where := strings.Fields(server.say("serving ", time.Minute))
	w.remote = bus.Options{URL: where[1], User: where[2], Password: where[3], Log: zerolog.Nop()}
	var err error
	w.conn, err = bus.Connect(w.ctx(), w.remote)
	w.must(err)
	t.Cleanup(func() { _ = w.conn.Close() })
	w.create(subjects.StreamOptions{})
	return w, server
}

func (p *process) signal(s syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatalf("%s: %v\n%s", p.role, err, p.errs)
	}
}

// say waits for a line of its output, and returns it.
func (p *process) say(want string, within time.Duration) string {
	p.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if strings.HasPrefix(line, want) {
				return line
			}
			if !ok {
				p.Fatalf("%s ended before it said %q: %v\n%s", p.role, want, <-p.done, p.errs)
			}
		case <-timer.C:
			p.Fatalf("%s does not say %q within %v\n%s", p.role, want, within, p.errs)
			return ""
		}
	}
}

// end waits until it ends by itself.
func (p *process) end(within time.Duration) {
	p.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			p.Fatalf("%s: %v\n%s", p.role, err, p.errs)
		}
	case <-time.After(within):
		p.Fatalf("%s is not done within %v\n%s", p.role, within, p.errs)
	}
}

// status is one value of /proc/PID/status, in bytes.
func (p *process) status(key string) int {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(key+":")); ok {
			kb, err := strconv.Atoi(strings.Fields(string(rest))[0])
			if err != nil {
				p.Fatal(err)
			}
			return kb << 10
		}
	}
	p.Fatalf("no %s in\n%s", key, text)
	return 0
}

// peak is the most memory that the process has had resident.
func (p *process) peak() int { return p.status("VmHWM") }

// within wants the peak to be no more than a bound.
func (p *process) within(bound int, what string) (peak int) {
	p.Helper()
	peak = p.peak()
	p.Logf("%-10s peak %4d MiB, bound %4d MiB: %s", p.role, peak>>20, bound>>20, what)
	if peak > bound {
		p.Errorf("%s took %d MiB, its bound is %d MiB: %s", p.role, peak>>20, bound>>20, what)
	}
	return peak
}
