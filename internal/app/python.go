package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pythonProbe prints nothing when the interpreter can run trainer and engine.
const pythonProbe = `
import sys
if sys.version_info < (3, 11): sys.exit("Python %d.%d is too old: 3.11 or newer is needed" % sys.version_info[:2])
try:
    import headrace.trainer, headrace.engine, jax, optax, aiohttp
except ImportError as e: sys.exit(str(e))
`

const probeTimeout = 60 * time.Second

// findPython returns an interpreter that has the headrace package: the given
// one, HEADRACE_PYTHON, .venv/bin/python in this folder or beside the binary,
// or python3 on the path.
func findPython(ctx context.Context, given string) (string, error) {
	if given == "" {
		given = os.Getenv("HEADRACE_PYTHON")
	}
	if given != "" {
		return given, checkPython(ctx, given)
	}
	for _, p := range venvs() {
		if _, err := os.Stat(p); err == nil {
			return p, checkPython(ctx, p)
		}
	}
	p, err := exec.LookPath("python3")
	if err != nil {
		return "", fmt.Errorf("no Python found: install Python 3.11 or newer, then run `make venv` (or name one with --python)")
	}
	return p, checkPython(ctx, p)
}

func venvs() []string {
	list := []string{filepath.Join(".venv", "bin", "python")}
	if exe, err := os.Executable(); err == nil {
		list = append(list, filepath.Join(filepath.Dir(exe), "..", ".venv", "bin", "python"))
	}
	for i, p := range list {
		if abs, err := filepath.Abs(p); err == nil {
			list[i] = abs
		}
	}
	return list
}

func checkPython(ctx context.Context, python string) error {
	probing, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(probing, python, "-c", pythonProbe).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	why := strings.TrimSpace(string(out))
	if why == "" {
		why = err.Error()
	}
	return fmt.Errorf("%s cannot run the trainer (%s): run `make venv`, or name another interpreter with --python", python, lastLine(why))
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }
