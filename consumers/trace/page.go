package trace

import "github.com/headrace/headrace/subjects"

// page is what is kept of a ledger entry: of a trajectory its flow alone, so that
// a long run's ledger is no more than its groups.
type page struct {
	at          int64
	writer, end string
	verdicts    []closing
	batches     []cut
	evals       []subjects.EvalResult
	issued      []subjects.Issue
}

// closing is a verdict without its members.
type closing struct {
	subjects.Verdict
	members int
	flows   []uint64 // of a group that is trained
}

// cut is a batch without its groups.
type cut struct {
	subjects.Batch
	groups []subjects.GroupID
	flows  []uint64
	seqs   []uint64 // messages of ROLLOUTS that it is from
}

func newPage(e *subjects.Entry) *page {
	p := &page{at: e.At, writer: e.Writer, end: e.End, evals: e.Evals, issued: e.Issued}
	for _, v := range e.Verdicts {
		c := closing{Verdict: v, members: len(v.Members)}
		if v.Outcome.Trained() {
			c.flows = memberFlows(nil, v.Group, v.Members)
		}
		c.Members = nil
		p.verdicts = append(p.verdicts, c)
	}
	for _, b := range e.Batches {
		c := cut{Batch: b}
		for _, g := range b.Groups {
			c.groups, c.flows = append(c.groups, g.Group), memberFlows(c.flows, g.Group, g.Members)
			for _, m := range g.Members {
				if n := len(c.seqs); n == 0 || c.seqs[n-1] != m.Seq {
					c.seqs = append(c.seqs, m.Seq)
				}
			}
		}
		c.Groups = nil
		p.batches = append(p.batches, c)
	}
	return p
}

func memberFlows(flows []uint64, g subjects.GroupID, members []subjects.Member) []uint64 {
	for _, m := range members {
		flows = append(flows, subjects.FlowID(g, m.Slot, m.Attempt))
	}
	return flows
}
