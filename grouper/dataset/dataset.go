package dataset

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Task is what an episode is about: the environment's seed and, from a JSONL
// file, the row.
type Task struct {
	Seed int64
	Data []byte // JSON; nil without a file
}

// Dataset is a run's training tasks, in order, and its held-out ones. It is
// read-only and safe for concurrent use.
type Dataset struct {
	cfg  Config
	rows [][]byte // training rows; nil for seeds
	held [][]byte
}

// Open reads what cfg names and refuses a held-out task that is also trained
// on. evalTasks is as in [Config.Validate], seed the recipe's.
func Open(cfg Config, evalTasks int, seed int64) (*Dataset, error) {
	if err := cfg.Validate(evalTasks); err != nil {
		return nil, err
	}
	d := &Dataset{cfg: cfg.WithDefaults(seed)}
	if cfg.Path == "" {
		return d, nil
	}
	var err error
	if d.rows, err = readFile("path", cfg.Path); err != nil {
		return nil, err
	}
	if cfg.EvalPath != "" {
		if d.held, err = readFile("eval_path", cfg.EvalPath); err != nil {
			return nil, err
		}
	}
	if cfg.HeldOut >= len(d.rows) {
		return nil, emptyf("held_out", "%d of the %d rows in %s; that leaves none to train on", cfg.HeldOut, len(d.rows), cfg.Path)
	}
	if n := len(d.rows) - cfg.HeldOut; cfg.HeldOut > 0 {
		d.rows, d.held = d.rows[:n], d.rows[n:]
	}
	if len(d.held) < evalTasks {
		return nil, fieldErrorf("eval_path", "%s has %d rows; evaluation plays %d tasks", cfg.EvalPath, len(d.held), evalTasks)
	}
	return d, d.disjoint()
}

// disjoint refuses rows that are both trained on and held out.
func (d *Dataset) disjoint() error {
	trained := make(map[[32]byte]int, len(d.rows))
	for i, r := range d.rows {
		trained[sha256.Sum256(r)] = i
	}
	for i, r := range d.held {
		if j, ok := trained[sha256.Sum256(r)]; ok {
			return fieldErrorf("path", "held-out row %d is also training row %d: held-out tasks would be trained on", i+1, j+1)
		}
	}
	return nil
}

// Groups is the number of training tasks, epochs included; 0 means without end.
func (d *Dataset) Groups() uint64 { return d.size() * uint64(d.cfg.Epochs) }

// size is the number of training tasks of one epoch.
func (d *Dataset) size() uint64 {
	if d.rows != nil {
		return uint64(len(d.rows))
	}
	return uint64(d.cfg.Seeds.Count)
}

// Train is the n-th training task, from 0, in the order of its epoch. n is
// below Groups where that is not 0.
func (d *Dataset) Train(n uint64) Task {
	epoch, i := n/d.size(), n%d.size()
	if *d.cfg.Shuffle {
		p := newPermutation(d.size(), uint64(*d.cfg.ShuffleSeed), epoch)
		i = p.at(i)
	}
	if d.rows == nil {
		return Task{Seed: d.cfg.Seeds.First + int64(i)}
	}
	return Task{Seed: int64(i), Data: d.rows[i]}
}

// Eval is the i-th held-out task, from 0: the same in every round.
func (d *Dataset) Eval(i int) Task {
	if d.rows == nil {
		return Task{Seed: d.cfg.EvalSeeds.First + int64(i)}
	}
	return Task{Seed: int64(len(d.rows) + i), Data: d.held[i]}
}

func readFile(field, path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fieldErrorf(field, "%v", err)
	}
	defer f.Close()
	rows, err := readRows(f)
	if err != nil {
		return nil, fieldErrorf(field, "%s:%v", path, err)
	}
	if len(rows) == 0 {
		return nil, emptyf(field, "%s has no rows", path)
	}
	return rows, nil
}

// readRows reads JSON objects, one a line; blank lines are skipped. Its errors
// start with the line's number. Rows are compacted: equal ones have equal bytes
// if their keys are in the same order.
func readRows(r io.Reader) ([][]byte, error) {
	in, rows := bufio.NewReader(r), [][]byte(nil)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var row bytes.Buffer
			if e := json.Compact(&row, line); e != nil || line[0] != '{' {
				return nil, fmt.Errorf("%d: want one JSON object a line", n)
			}
			rows = append(rows, row.Bytes())
		}
		if err != nil {
			return rows, nil
		}
	}
}
