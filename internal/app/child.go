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

// child is a process that runs under supervision: its output goes to the log
// and to a file of its own, or to out, its death is answered by a new start.
type child struct {
	name string
	// program is what runs, args are its arguments, env is added to the environment.
	program   string
	args, env []string
	dir       string    // of its log file
	out       io.Writer // where its output goes instead; nil: the file and the log
	log       zerolog.Logger
	// always answers an end with status 0 too: this process is to run for ever.
	always bool
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
	deaths, wait := 0, childBackoff
	for {
		begun := time.Now()
		tail, err := c.once(ctx)
		if ctx.Err() != nil || err == nil && !c.always {
			return nil
		}
		if err == nil {
			err = errEndedEarly
		}
		if time.Since(begun) > childSettled {
			deaths, wait = 0, childBackoff
		}
		if deaths++; deaths > c.restarts {
			return fmt.Errorf("%s died %d times (%w)%s: %s", c.name, deaths, err, c.whereOutput(), tail)
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

// errEndedEarly is how a process dies that should run for ever and says 0.
var errEndedEarly = errors.New("it ended by itself")

func (c *child) logFile() string { return filepath.Join(c.dir, c.name+".log") }

func (c *child) whereOutput() string {
	if c.out != nil {
		return ""
	}
	return "; its output is in " + c.logFile()
}

// once runs the process to its end and returns its last lines of output.
func (c *child) once(ctx context.Context) (tail string, err error) {
	out := c.out
	if out == nil {
		file, err := c.openLog()
		if err != nil {
			return "", err
		}
		defer file.Close()
		out = file
	}
	cmd := exec.CommandContext(ctx, c.program, c.args...)
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
		return "", fmt.Errorf("start %s: %w", c.program, err)
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

func (c *child) openLog() (*os.File, error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make log folder: %w", err)
	}
	file, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return file, nil
}

// copyLines passes output on and returns the last lines of it.
func (c *child) copyLines(r io.Reader, out io.Writer) string {
	var last []string
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 4096), 1<<20)
	for scan.Scan() {
		line := scan.Text()
		fmt.Fprintln(out, line)
		if c.out == nil {
			c.log.Debug().Str("child", c.name).Msg(line)
		}
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
