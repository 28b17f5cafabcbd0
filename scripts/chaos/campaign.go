package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// campaign is all runs of all faults.
type campaign struct {
	o       *options
	log     *os.File
	mu      sync.Mutex
	begun   time.Time
	planned int
	done    int
	failed  int
}

func newCampaign(o *options) *campaign { return &campaign{o: o, begun: time.Now()} }

// logPath is where every run leaves a line.
func (o *options) logPath() string { return strings.TrimSuffix(o.out, ".json") + ".runs.jsonl" }

// task is one run to do.
type task struct {
	fault *fault
	index int
}

func (c *campaign) run(ctx context.Context) error {
	todo, err := c.open()
	if err != nil {
		return err
	}
	defer c.log.Close()
	c.planned = len(todo)
	queue := make(chan task)
	var crew sync.WaitGroup
	for range c.o.parallel {
		crew.Go(func() {
			for t := range queue {
				if ctx.Err() == nil {
					c.note(ctx, play(ctx, c.o, t.fault, t.index))
				}
			}
		})
	}
	for _, t := range todo {
		queue <- t
	}
	close(queue)
	crew.Wait()
	if err := c.o.writeTable(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; --resume goes on")
	case c.failed > 0:
		return fmt.Errorf("%d of %d runs failed", c.failed, c.done)
	}
	return nil
}

// open reads what was done before, where that counts, and lists what is left:
// one run of every fault, then the next of each, so that a campaign that is cut
// short has some of all.
func (c *campaign) open() (todo []task, err error) {
	if err := os.MkdirAll(filepath.Dir(c.o.out), 0o755); err != nil {
		return nil, err
	}
	have := map[string]bool{}
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if c.o.resume {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		results, err := c.o.readResults()
		if err != nil {
			return nil, err
		}
		for i := range results {
			have[results[i].key()] = !c.o.redo || !results[i].bad()
		}
	}
	if c.log, err = os.OpenFile(c.o.logPath(), mode, 0o644); err != nil {
		return nil, err
	}
	for index := range c.o.runs {
		for _, f := range c.o.faults {
			if !have[(&result{Fault: f.name, Index: index}).key()] {
				todo = append(todo, task{f, index})
			}
		}
	}
	return todo, nil
}

// note writes a run's line and tells how it goes. A run that was interrupted
// leaves none.
func (c *campaign) note(ctx context.Context, r result) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.Marshal(&r)
	if err == nil {
		_, err = c.log.Write(append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: note a run:", err)
	}
	c.done++
	left := time.Since(c.begun) / time.Duration(c.done) * time.Duration(c.planned-c.done)
	word := "ok"
	if r.bad() {
		c.failed++
		word = "FAILED"
	}
	fmt.Fprintf(os.Stderr, "%3d/%d %-20s #%-3d %-6s %5.1f s, recovery %6.3f s, stall %5.1f s, %2d steps again; %s (%s left)\n",
		c.done, c.planned, r.Fault, r.Index, word, r.Wall, r.Recovery, r.Stall, r.Resumed, r.Wound, left.Round(time.Second))
	if r.bad() {
		fmt.Fprintf(os.Stderr, "        %s\n        lost %d, duplicated %d, mixed %d %s\n        look at: %s/result.json, %s/trainer.jsonl, %s/logs; again: chaos --faults %s --seed %d (run %d)\n",
			r.Error, r.Lost, r.Duplicated, r.Mixed, strings.Join(r.Faults, "; "), r.Dir, r.Dir, r.Dir, r.Fault, c.o.seed, r.Index)
	}
}

// readResults reads the lines of a campaign; the last of each run counts.
func (o *options) readResults() ([]result, error) {
	f, err := os.Open(o.logPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var results []result
	place := map[string]int{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r result
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			continue // cut by the end of a harness
		}
		if i, seen := place[r.key()]; seen {
			results[i] = r
			continue
		}
		place[r.key()] = len(results)
		results = append(results, r)
	}
	return results, in.Err()
}
