package service

import (
	"context"

	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
)

// room is how many spans a grouper records in a second at most: it has one line.
const room = 4 << 10

// work records what the session's goroutine does, on one lane. What happens for
// every message is recorded together: a message must not cost a span.
type work struct {
	*spans.Recorder
	restore, fold, decide, publish, issue, evaluate spans.Name
	messages, verdicts, tasks, step                 spans.Name

	folding folding
}

// folding is a time in which headers came and were folded.
type folding struct {
	start, end int64
	messages   int
}

// foldEvery is how long a fold's span is at most, and foldGap how long nothing
// may come within one.
const (
	foldEvery = int64(100e6)
	foldGap   = int64(10e6)
)

func newWork(writer string) *work {
	r := spans.New("grouper", writer, room)
	return &work{Recorder: r, restore: r.Name("restore"), fold: r.Name("fold"), decide: r.Name("decide"), publish: r.Name("publish ledger"),
		issue: r.Name("issue tasks"), evaluate: r.Name("evaluate"), messages: r.Name("messages"), verdicts: r.Name("verdicts"), tasks: r.Name("tasks"), step: r.Name("step")}
}

// run reports until ctx ends.
func (w *work) run(ctx context.Context, s *service) {
	if err := w.Run(ctx, s.cfg.Conn, s.cfg.Run); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("spans are not published")
	}
}

// folded notes that so many messages were folded from a time until now.
func (w *work) folded(start int64, messages int) {
	now, f := w.Now(), &w.folding
	if f.messages > 0 && (start-f.end > foldGap || now-f.start > foldEvery) {
		w.flush()
	}
	if f.messages == 0 {
		f.start = start
	}
	f.end, f.messages = now, f.messages+messages
}

// flush records what was folded: before anything else of the lane is.
func (w *work) flush() {
	if f := &w.folding; f.messages > 0 {
		w.Record(w.fold, 0, f.start, f.end, spans.Arg{Key: w.messages, Value: float64(f.messages)})
		*f = folding{}
	}
}

// did records what took from a time until now, and returns now.
func (w *work) did(n spans.Name, start int64, args ...spans.Arg) int64 {
	w.flush()
	now := w.Now()
	w.Record(n, 0, start, now, args...)
	return now
}

// decided records a decision, and which batch or evaluation it was.
func (w *work) decided(start int64, e *subjects.Entry) {
	name, args := w.decide, []spans.Arg{{Key: w.verdicts, Value: float64(len(e.Verdicts))}}
	if len(e.Batches) > 0 {
		args = append(args, spans.Arg{Key: w.step, Value: float64(e.Batches[len(e.Batches)-1].Step)})
	}
	if len(e.Evals) > 0 {
		name, args = w.evaluate, append(args, spans.Arg{Key: w.step, Value: float64(e.Evals[len(e.Evals)-1].Round)})
	}
	w.did(name, start, args...)
}
