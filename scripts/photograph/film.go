package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Size of the recorded terminal.
const termColumns, termRows = 100, 30

// frame is what a terminal showed from a moment on.
type frame struct {
	at     float64 // seconds
	screen screen
}

// film runs a command in a terminal for some seconds and draws what it showed as
// an SVG that plays by itself. The terminal is util-linux's `script`.
func film(ctx context.Context, command, title string, seconds float64, out string) error {
	path, err := exec.LookPath("script")
	if err != nil {
		return fmt.Errorf("a terminal to record in: %w (package bsdutils or util-linux)", err)
	}
	dir, err := os.MkdirTemp("", "photograph")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of /tmp
	text, times := filepath.Join(dir, "text"), filepath.Join(dir, "times")
	sized := fmt.Sprintf("stty cols %d rows %d; exec timeout --signal INT %g %s", termColumns, termRows, seconds, command)
	ctx, cancel := context.WithTimeout(ctx, time.Duration((seconds+10)*float64(time.Second)))
	defer cancel()
	recorder := exec.CommandContext(ctx, path, "--quiet", "--flush", "--log-out", text, "--log-timing", times, "--logging-format", "classic", "--command", sized)
	recorder.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor")
	if err := recorder.Run(); err != nil {
		return fmt.Errorf("record %s: %w", command, err)
	}
	frames, err := frames(text, times)
	if err != nil {
		return err
	}
	svg := draw(frames, seconds, title)
	fmt.Printf("%s  %d frames, %d kB\n", out, len(frames), len(svg)/1000)
	return os.WriteFile(out, svg, 0o644) //nolint:gosec // a picture of the documentation
}

// frames plays a recording into a screen and keeps what stood there for a while.
func frames(text, times string) ([]frame, error) {
	log, err1 := os.ReadFile(text)
	timing, err2 := os.ReadFile(times)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if i := bytes.IndexByte(log, '\n'); bytes.HasPrefix(log, []byte("Script started")) && i >= 0 {
		log = log[i+1:]
	}
	var out []frame
	now, s := 0.0, newScreen(termColumns, termRows)
	for line := range bytes.Lines(timing) {
		fields := bytes.Fields(line)
		if len(fields) != 2 {
			continue
		}
		wait, err1 := strconv.ParseFloat(string(fields[0]), 64)
		n, err2 := strconv.Atoi(string(fields[1]))
		if err1 != nil || err2 != nil || n > len(log) {
			continue
		}
		if wait > 0.1 && s.any() { // it stood: what was drawn before is whole
			out = append(out, frame{now, s.copy()})
		}
		now += wait
		s.write(log[:n])
		log = log[n:]
	}
	if s.any() {
		out = append(out, frame{now, s.copy()})
	}
	if len(out) == 0 {
		return nil, errors.New("the command showed nothing")
	}
	return out, nil
}
