package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestReader_ALiveCommandHasTheNiceValue that was asked for, in all of its threads.
func TestReader_ALiveCommandHasTheNiceValue(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "ui", "--dir", t.TempDir(), "--listen", "127.0.0.1:0")
	c.Env = append(os.Environ(), asMain+"=1", niceVariable+"=17")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n') // it serves
	values := niceValues(t, c.Process.Pid)
	if err := errors.Join(err, c.Process.Signal(os.Interrupt)); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // interrupted
	if !strings.HasPrefix(address, "http://127.0.0.1:") || len(values) < 2 {
		t.Fatalf("it said %q and has %d threads", address, len(values))
	}
	for thread, v := range values {
		if n, err := strconv.Atoi(v); err != nil || n < 17 { // more where the test itself gives way more
			t.Errorf("thread %s has the nice value %q", thread, v)
		}
	}
}

// niceValues are those of a process's threads.
func niceValues(t *testing.T, pid int) map[string]string {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range threads {
		if text, err := os.ReadFile(name); err == nil { // else it has ended
			fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
			all[name] = fields[16]
		}
	}
	return all
}
