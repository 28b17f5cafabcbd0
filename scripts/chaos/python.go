package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/headrace/headrace/subjects"
)

// startPython starts the JAX engine and trainer in place of the harness's own.
func (w *world) startPython(feed string) error {
	command := func(args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			cmd := exec.Command(w.o.python, args...)
			cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
			return cmd
		}
	}
	return errors.Join(
		w.launch("engine", command("-m", "headrace.engine", "--model-path", w.path("model"), "--host", "127.0.0.1",
			"--port", strconv.Itoa(w.port("engine")), "--slots", "32", "--context", "160")),
		w.launch("trainer", command("-m", "headrace.trainer", "--feed", feed, "--checkpoints", w.path("checkpoints"))),
	)
}

var (
	saysStart = regexp.MustCompile(`fresh start|resumed at step (\d+)`)
	saysStep  = regexp.MustCompile(`step (\d+): .*digest ([0-9a-f]{8})`)
	saysEnd   = regexp.MustCompile(`trained to step (\d+)`)
)

// fromWords are the lines of the Python trainer's log, which has no states.
func fromWords(text []byte) (lines []line) {
	add := func(step []byte, more ...line) {
		n, _ := strconv.Atoi(string(step)) // digits, or nothing
		for _, l := range more {
			l.Step = subjects.Step(n)
			lines = append(lines, l)
		}
	}
	for row := range bytes.Lines(text) {
		if m := saysStep.FindSubmatch(row); m != nil {
			add(m[1], line{Event: "batch", Digest: string(m[2])}, line{Event: "commit"})
		} else if m := saysEnd.FindSubmatch(row); m != nil {
			add(m[1], line{Event: "end"})
		} else if m := saysStart.FindSubmatch(row); m != nil {
			add(m[1], line{Event: "start"})
		}
	}
	return lines
}
