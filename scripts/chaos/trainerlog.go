package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/headrace/headrace/subjects"
)

// trainerLog is what the trainer noted.
type trainerLog struct {
	path   string
	python bool // it is the Python trainer's, in words
}

func (w *world) trainerLog() *trainerLog {
	if w.o.python != "" {
		return &trainerLog{w.path("logs/trainer.log"), true}
	}
	return &trainerLog{w.path("trainer.jsonl"), false}
}

// read is all of it. A last line without its end was never acted upon.
func (l *trainerLog) read() ([]line, error) {
	text, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if l.python {
		return fromWords(text), nil
	}
	var lines []line
	for row := range bytes.Lines(text) {
		var x line
		if err := json.Unmarshal(row, &x); err != nil {
			if !bytes.HasSuffix(row, []byte("\n")) {
				break
			}
			return nil, err
		}
		lines = append(lines, x)
	}
	return lines, nil
}

// last is the highest step that was committed.
func last(lines []line) (step subjects.Step) {
	for _, l := range lines {
		if l.Event == "commit" {
			step = max(step, l.Step)
		}
	}
	return step
}

// awaitStep waits until a batch of the step was delivered.
func (l *trainerLog) awaitStep(ctx context.Context, step subjects.Step) error {
	size := int64(-1)
	for {
		if info, err := os.Stat(l.path); err == nil && info.Size() != size {
			size = info.Size()
			lines, err := l.read()
			if err != nil {
				return err
			}
			for _, x := range lines {
				if x.Event == "batch" && x.Step >= step {
					return nil
				}
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
