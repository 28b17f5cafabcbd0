package synth

import (
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/subjects"
)

// writer is the name of the made-up grouper.
const writer = "synthetic"

// decide writes what the grouper decides, and has it take effect.
func (w *world) decide() {
	for w.err == nil {
		e := w.core.Decide(w.now)
		if e == nil {
			return
		}
		e.Writer, e.Letters = writer, w.letters
		data, err := subjects.EncodeMessage(e)
		if err != nil {
			w.err = err
			return
		}
		w.entries = w.store.add(subjects.Ledger, w.run.LedgerSubject(), w.now, header(jetstream.MsgIDHeader, "ledger/"+strconv.FormatUint(w.entries+1, 10)), data)
		w.core.Appended(e, w.entries)
		for i := range e.Batches {
			b := &e.Batches[i]
			w.trainer.cut(w, batch{b.Step, b.Rows, b.Tokens, b.RewardMean, b.StalenessMean})
		}
		w.tasks = append(w.tasks, w.core.Plays(e)...)
		w.assign()
	}
}

// header are the bytes of a message's headers: names and values in turn.
func header(fields ...string) []byte {
	b := append(make([]byte, 0, 256), "NATS/1.0\r\n"...)
	for i := 0; i < len(fields); i += 2 {
		b = append(append(append(append(b, fields[i]...), ": "...), fields[i+1]...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// task is what an episode is about, as the grouper would have said it.
type task struct {
	grouper.Play
	name     string
	seed     int64
	sampling subjects.Sampling
}

func (w *world) task(p grouper.Play) task {
	row := w.data.Train(p.Task)
	s := subjects.Sampling{Temperature: w.recipe.Sampling.Temperature, TopP: w.recipe.Sampling.TopP, MaxNewTokens: w.recipe.Sampling.MaxNewTokens}
	if p.Kind == subjects.Eval {
		row = w.data.Eval(int(p.Task)) //nolint:gosec // small
	}
	if p.Greedy {
		s.Temperature, s.TopP = 0, 0
	}
	s.Seed = dataset.Mix(uint64(w.recipe.Seed), uint64(p.Env), uint64(row.Seed), uint64(p.Round), p.Task, uint64(p.Slot), uint64(p.Attempt)) //nolint:gosec // bits
	return task{Play: p, name: envNames[p.Env], seed: row.Seed, sampling: s}
}

// ordinal of a training group; 0 for others.
func ordinal(g subjects.GroupID) uint64 {
	if len(g) < 2 || g[0] != 't' {
		return 0
	}
	n, _ := strconv.ParseUint(string(g[1:]), 10, 64)
	return n
}
