package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// child is a Python process that runs under supervision: its output goes to
// the log and to a file of its own, its death is answered by a new start.
type child struct {
	name string
	args []string // after the interpreter
	// python is the interpreter, env what is added to the environment.
	python string
	env    []string
	dir    string // of its log file
	log    zerolog.Logger
	// restarts is how many deaths in a row are answered; a process that lived
	// for a minute starts the count anew.
	restarts int
	// started, when set, is called with the pid of every start.
	started func(pid int)
}

// How a child is stopped and restarted.
const (
	childGrace    = 20 * time.Second // between the request to end and the kill
	childBackoff  = time.Second      // before the first restart, doubled after each
	childSettled  = time.Minute      // a process that lived this long was healthy
	childTailSize = 3                // last lines of output in an error ...
	childTailLine = 160              // ... and bytes of each
)

// run starts the process and keeps it alive until it ends by itself with
// status 0, ctx is done, or it has died too often.
func (c *child) run(ctx context.Context) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("make log folder: %w", err)
	}
	deaths, wait := 0, childBackoff
	for {
		begun := time.Now()
		tail, err := c.once(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > childSettled {
			deaths, wait = 0, childBackoff
		}
		if deaths++; deaths > c.restarts {
			return fmt.Errorf("%s died %d times (%w); its output is in %s: %s", c.name, deaths, err, c.logFile(), tail)
		}
		c.log.Warn().Str("child", c.name).Err(err).Str("last_output", tail).Dur("restart_in", wait).Msg("child died")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait *= 2
	}
}

func (c *child) logFile() string { return filepath.Join(c.dir, c.name+".log") }

// once runs the process to its end and returns its last lines of output.
func (c *child) once(ctx context.Context) (tail string, err error) {
	out, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", fmt.Errorf("open log: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, c.python, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childGrace
	stdin, err := cmd.StdinPipe() // held open: it closes when we die, and the child with it
	if err != nil {
		return "", err
	}
	defer stdin.Close()
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", c.python, err)
	}
	c.log.Debug().Str("child", c.name).Int("pid", cmd.Process.Pid).Msg("child started")
	if c.started != nil {
		c.started(cmd.Process.Pid)
	}
	lines := make(chan string)
	go func() { lines <- c.copyLines(reader, out) }()
	err = cmd.Wait()
	_ = writer.Close() // which never fails
	return <-lines, exitReason(err)
}

// copyLines passes output on and returns the last lines of it.
func (c *child) copyLines(r io.Reader, file io.Writer) string {
	var last []string
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 4096), 1<<20)
	for scan.Scan() {
		line := scan.Text()
		fmt.Fprintln(file, line)
		c.log.Debug().Str("child", c.name).Msg(line)
		if last = append(last, line[:min(len(line), childTailLine)]); len(last) > childTailSize {
			last = last[1:]
		}
	}
	io.Copy(io.Discard, r) //nolint:errcheck // a line beyond the buffer: keep the pipe flowing
	return strings.ToValidUTF8(strings.Join(last, " | "), "")
}

func exitReason(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New(exit.ProcessState.String())
	}
	return err
}
