package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	firstPause = 100 * time.Millisecond // before what died is started again, as Docker does
	mostPause  = 2 * time.Second
	goodLife   = 10 * time.Second // a process that lived so long has recovered
)

// proc is one process of the fleet and its supervisor: whatever dies is started
// again, until it ends with success or is told to stop.
type proc struct {
	name string
	make func() *exec.Cmd
	out  *os.File
	done chan struct{} // closed when it is over for good
	quit chan struct{} // closed to stop it

	mu     sync.Mutex
	cmd    *exec.Cmd // alive, or nil
	held   func()    // what happens before the next start, instead of a pause
	lives  int
	began  time.Time // of the present life, or of the last
	change chan struct{}
	ended  bool // with success
}

// launch starts a process under supervision; its output goes to a file in dir.
func launch(dir, name string, mk func() *exec.Cmd) (*proc, error) {
	out, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &proc{name: name, make: mk, out: out, done: make(chan struct{}), quit: make(chan struct{}), change: make(chan struct{})}
	go p.supervise() // ended by stop
	return p, nil
}

func (p *proc) supervise() {
	defer close(p.done)
	defer p.out.Close() //nolint:errcheck // a log
	pause := firstPause
	for !p.stopping() {
		cmd := p.make()
		cmd.Stdout, cmd.Stderr = p.out, p.out
		exited, err := start(cmd)
		if err == nil {
			p.note(cmd)
			err = <-exited
		}
		lived := time.Since(p.began)
		fmt.Fprintf(p.out, "chaos: %s %s after %s: %v\n", time.Now().Format("15:04:05.000"), p.name, lived.Round(time.Millisecond), err)
		if pause = min(2*pause, mostPause); lived > goodLife {
			pause = firstPause
		}
		wait, over := p.gone(err, pause)
		if over {
			return
		}
		select {
		case <-time.After(wait):
		case <-p.quit:
			return
		}
	}
}

// note notes a start.
func (p *proc) note(cmd *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.began = cmd, time.Now()
	p.lives++
	fmt.Fprintf(p.out, "chaos: %s %s starts, life %d, pid %d\n", p.began.Format("15:04:05.000"), p.name, p.lives, cmd.Process.Pid)
	close(p.change)
	p.change = make(chan struct{})
}

// gone notes an end and says how long to wait before the next start.
func (p *proc) gone(err error, pause time.Duration) (time.Duration, bool) {
	p.mu.Lock()
	held := p.held
	p.cmd, p.held = nil, nil
	p.ended = err == nil && held == nil
	ended := p.ended
	p.mu.Unlock()
	if held != nil {
		held()
		pause = 0
	}
	return pause, ended
}

var errGone = errors.New("the process has ended already")

// signal sends a signal to the present life.
func (p *proc) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s: %w", p.name, errGone)
	}
	return p.cmd.Process.Signal(s)
}

// crash ends the process with a signal, keeps it down for a while, and returns
// when it was started again. Something may happen while it is down.
func (p *proc) crash(s syscall.Signal, down time.Duration, meanwhile func() error) (time.Time, error) {
	var err error
	p.mu.Lock()
	if p.cmd == nil {
		p.mu.Unlock()
		return time.Time{}, fmt.Errorf("%s: %w", p.name, errGone)
	}
	p.held = func() {
		if meanwhile != nil {
			err = meanwhile()
		}
		select {
		case <-time.After(down):
		case <-p.quit:
		}
	}
	old := p.lives
	failed := p.cmd.Process.Signal(s)
	p.mu.Unlock()
	if failed != nil {
		return time.Time{}, failed
	}
	back, failed := p.awaitLife(old + 1)
	return back, errors.Join(failed, err)
}

// awaitLife waits for the n-th start.
func (p *proc) awaitLife(n int) (time.Time, error) {
	for {
		p.mu.Lock()
		lives, began, change := p.lives, p.began, p.change
		p.mu.Unlock()
		if lives >= n {
			return began, nil
		}
		select {
		case <-change:
		case <-p.done:
			return time.Time{}, fmt.Errorf("%s: %w", p.name, errGone)
		}
	}
}

func (p *proc) stopping() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

// stop ends the process: SIGTERM, then SIGKILL after a while.
func (p *proc) stop(patience time.Duration) {
	if !p.stopping() {
		close(p.quit)
	}
	kill := time.Now().Add(patience)
	for {
		_ = p.signal(syscall.SIGCONT)
		_ = p.signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(patience / 20):
		}
		if time.Now().After(kill) {
			_ = p.signal(syscall.SIGKILL)
		}
	}
}
