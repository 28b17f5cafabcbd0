// Command fuzz runs every fuzz target of the repository for a while, one after
// the other, and keeps what they found in testdata/fuzz.
//
//	go run ./scripts/fuzz -t 2m             run all; prints a table of executions
//	go run ./scripts/fuzz -t 2m FuzzParse   run one
//	go run ./scripts/fuzz -keep             keep the smallest inputs that reach everything
//
// One idea explains its shape: the fuzzer's own corpus grows without end and
// belongs to one machine, so what is kept is chosen anew by what it covers.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/archtest"
)

// target is one fuzz function.
type target struct{ dir, name string }

func main() {
	fuzztime := flag.String("t", "1m", "time for each target, or executions: 100000x")
	keepOnly := flag.Bool("keep", false, "choose the corpus that is kept, run nothing")
	bytes := flag.Int("bytes", 24<<10, "bytes to keep for a target")
	flag.Parse()
	if err := run(*fuzztime, *keepOnly, *bytes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(fuzztime string, keepOnly bool, bytes int, names []string) error {
	targets, err := find(names)
	if err != nil {
		return err
	}
	if keepOnly {
		for _, t := range targets {
			if err := keep(t, bytes); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Println("| target | package | executions | minutes |\n|---|---|---|---|")
	total := 0
	for _, t := range targets {
		began := time.Now()
		n, err := t.fuzz(fuzztime)
		if total += n; err != nil {
			return fmt.Errorf("%s in %s: %w", t.name, t.dir, err)
		}
		fmt.Printf("| `%s` | %s | %d | %.1f |\n", t.name, t.dir, n, time.Since(began).Minutes())
	}
	fmt.Printf("| all | | %d | |\n", total)
	return nil
}

// find lists the targets in the order of their packages.
func find(names []string) (out []target, err error) {
	files, err := archtest.Load(os.DirFS("."))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && strings.HasSuffix(f.Path, "_test.go") &&
				(len(names) == 0 || slices.Contains(names, fn.Name.Name)) {
				out = append(out, target{f.Dir(), fn.Name.Name})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no fuzz target %v here: run it at the root of the repository", names)
	}
	return out, nil
}

var executions = regexp.MustCompile(`execs: (\d+)`)

// fuzz runs the target and returns how often it was executed.
func (t target) fuzz(fuzztime string) (n int, err error) {
	cmd := exec.Command("go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+fuzztime, "-fuzzminimizetime=1s", "-parallel=1", "./"+t.dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if m := executions.FindStringSubmatch(line); m != nil {
			n, _ = strconv.Atoi(m[1])
			continue
		}
		said = append(said, line)
	}
	text := strings.Join(said, "\n")
	if err := cmd.Wait(); err != nil && !outOfTime(text) {
		return n, fmt.Errorf("%w\n%s", err, text)
	}
	return n, nil
}

// outOfTime: go test calls it a failure when its time ends while it makes an
// input smaller. A real one names the input.
func outOfTime(text string) bool {
	return strings.Contains(text, "context deadline exceeded") && !strings.Contains(text, "Failing input") && !strings.Contains(text, "panic:")
}
