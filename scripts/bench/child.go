package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// child is a started role.
type child struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	cpu0   time.Duration // when it was let go
	used   time.Duration // from then to count
	signal os.Signal     // what ends it; nil: the end of its stdin
}

// start starts a program whose stdout is lines of JSON.
func start(ctx context.Context, name string, argv ...string) (*child, error) {
	c := &child{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 16<<20)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// hear reads the next line into v.
func (c *child) hear(v any) error {
	if !c.out.Scan() {
		return fmt.Errorf("%s ended without a word (%v)", c.name, errors.Join(c.out.Err(), c.cmd.Wait()))
	}
	if err := json.Unmarshal(c.out.Bytes(), v); err != nil {
		return fmt.Errorf("%s says %.200q: %w", c.name, c.out.Text(), err)
	}
	return nil
}

func (c *child) letGo() error {
	c.cpu0 = cpuOf(c.cmd.Process.Pid)
	_, err := io.WriteString(c.in, "go\n")
	return err
}

// count takes the CPU time since the child was let go.
func (c *child) count() { c.used = cpuOf(c.cmd.Process.Pid) - c.cpu0 }

// end lets the child exit and waits for it.
func (c *child) end() error {
	_ = c.in.Close()
	if c.signal != nil {
		_ = c.cmd.Process.Signal(c.signal)
	}
	for c.out.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// cpuOf is the CPU time of a live process and of its children that have ended
// (Redis rewrites its file in one), user and system, in ticks of 10 ms.
func cpuOf(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 15 {
		return 0
	}
	ticks := int64(0)
	for _, field := range fields[11:15] {
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// cast is the children of one run of a line, in the order they were started.
type cast struct {
	o        *options
	ctx      context.Context
	children []*child
	watching []*child // of the children, those who only look
}

// role starts this command in a role, python a script beside it.
func (k *cast) role(name string, j job) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return k.add(name, self, "role", name, j.text())
}

func (k *cast) python(script string, j job) (*child, error) {
	return k.add(script, k.o.python, k.o.scripts+"/bench/"+script, j.text())
}

func (k *cast) add(name string, argv ...string) (*child, error) {
	c, err := start(k.ctx, name, argv...)
	if err == nil {
		k.children = append(k.children, c)
	}
	return c, err
}

func (j job) text() string {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // numbers and strings
	}
	return string(b)
}

// letGo starts the clocks and lets everybody go in the order of their start:
// server and consumers before producers.
func (k *cast) letGo() error {
	for _, c := range k.children {
		if err := c.letGo(); err != nil {
			return fmt.Errorf("let %s go: %w", c.name, err)
		}
	}
	return nil
}

// cpu is the CPU time of all children since they were let go.
func (k *cast) cpu() (sum time.Duration) {
	for _, c := range k.children {
		c.count()
		sum += c.used
	}
	return sum
}

// breakdown is the CPU time by role, seconds.
func (k *cast) breakdown() string {
	var names []string
	by := map[string]time.Duration{}
	for _, c := range k.children {
		if _, seen := by[c.name]; !seen {
			names = append(names, c.name)
		}
		by[c.name] += c.used
	}
	for i, n := range names {
		names[i] = fmt.Sprintf("%s %.2f", n, by[n].Seconds())
	}
	return strings.Join(names, ", ")
}

// end ends all children, the last started first.
func (k *cast) end() error {
	var all error
	for i := len(k.children) - 1; i >= 0; i-- {
		all = errors.Join(all, k.children[i].end())
	}
	k.children = nil
	return all
}

// kill ends what an error left behind.
func (k *cast) kill() {
	for _, c := range k.children {
		_ = c.cmd.Process.Kill()
		_ = c.end()
	}
}
