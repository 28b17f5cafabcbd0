package audit

import (
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// end draws the accounts.
func (f *fold) end() {
	f.counters.end()
	grown := true
	if state, err := bus.StreamState(f.ctx, f.conn, f.run, subjects.Ledger); err == nil {
		grown = state.LastSeq > f.cut.ledger.LastSeq
	}
	f.trainer.end(grown)
	f.short(subjects.Rollouts, f.report.Cut.Folded, f.cut.rollouts.LastSeq)
	f.short(subjects.Weights, f.weighed, f.cut.weights.LastSeq)
	f.short(subjects.DeadLetter, f.lettered, f.cut.deadletter.LastSeq)
	f.evals.rest("")
	f.balance()
}

// short reports a stream that ends before what the ledger rests on.
func (f *fold) short(s subjects.Stream, folded, last uint64) {
	if folded <= last {
		return
	}
	f.report.add(Discrepancy{Check: CheckStreams, Kind: Lost, Count: int(folded - last), Text: fmt.Sprintf("%s ends at message %d; the ledger rests on message %d",
		s, last, folded), Stream: f.stream(s), Seq: last})
}

// balance compares the account of the log with that of the core.
func (f *fold) balance() {
	t, e := &f.report.Training, &f.report.Evaluation
	f.report.checked(CheckAccount, t.Produced+e.Produced)
	if e.Balanced = e.Produced == e.Used+e.dropped()+e.Open; !e.Balanced {
		f.report.add(Discrepancy{Check: CheckAccount, Kind: Wrong, Text: fmt.Sprintf("evaluation: %d produced, %d measured + %d dropped + %d open",
			e.Produced, e.Used, e.dropped(), e.Open)})
	}
	core := f.ledger.replayed
	if core == nil {
		f.report.unproven(CheckAccount, t.Produced, "the account of training is not drawn: the ledger contradicts itself")
		return
	}
	counted := t.Produced - t.dropped() // what the core was shown
	st, view := core.Stats(), core.View(0)
	for why, n := range reasons(st) {
		t.drop(why, n)
	}
	t.Used, t.Open = st.Trained, uint64(view.Held)
	switch {
	case len(f.ledger.holes) > 0: // the ledger's word for what is gone
		t.Produced += st.Produced - min(counted, st.Produced)
		f.report.unproven(CheckAccount, st.Produced-min(counted, st.Produced), "")
	case counted != st.Produced:
		f.report.add(Discrepancy{Check: CheckAccount, Kind: Wrong, Text: fmt.Sprintf("training: the log has %d trajectories, the grouper's account %d", counted, st.Produced)})
	case st.Trained != f.groups.trained:
		f.report.add(Discrepancy{Check: CheckAccount, Kind: Wrong, Text: fmt.Sprintf("training: batches have %d trajectories, the grouper's account %d", f.groups.trained, st.Trained)})
	}
	if t.Balanced = t.Produced == t.Used+t.dropped()+t.Open; !t.Balanced {
		f.report.add(Discrepancy{Check: CheckAccount, Kind: Wrong, Text: fmt.Sprintf("training: %d produced, %d trained + %d dropped + %d open",
			t.Produced, t.Used, t.dropped(), t.Open)})
	}
}
