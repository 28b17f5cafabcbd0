package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// parent is a role's side of the conversation with the command that started it:
// lines of JSON on stdout; "go" on stdin, whose end means to exit.
type parent struct {
	onGone func()
	gone   chan struct{}
	begin  chan struct{}
}

func newParent() *parent {
	p := &parent{gone: make(chan struct{}), begin: make(chan struct{})}
	go func() { // ends with the process
		in := bufio.NewScanner(os.Stdin)
		if in.Scan() {
			close(p.begin)
		}
		for in.Scan() {
		}
		close(p.gone)
		if p.onGone != nil {
			p.onGone()
		}
	}()
	return p
}

// say prints one line.
func (p *parent) say(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(b))
	return err
}

// ready says so and waits to be let go, or for the parent's end.
func (p *parent) ready(v any) error {
	if err := p.say(v); err != nil {
		return err
	}
	select {
	case <-p.begin:
		return nil
	case <-p.gone:
		return fmt.Errorf("parent is gone")
	}
}

// none is the line of who has nothing to report.
type none struct{}

// profile starts a CPU profile, when asked for, and returns what ends it.
func (j job) profile(role string) (stop func()) {
	if j.Profile == "" {
		return func() {}
	}
	f, err := os.Create(filepath.Join(j.Profile, fmt.Sprintf("%s-%d-%s-%d-%d%s.pprof", role, j.Length, j.Sync, j.Groups, j.Index, j.Telemetry)))
	if err != nil || pprof.StartCPUProfile(f) != nil {
		fmt.Fprintln(os.Stderr, "bench: no profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
}
