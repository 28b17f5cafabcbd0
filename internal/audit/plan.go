package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// PolicyOf reads the run's policy from its record.
func PolicyOf(ctx context.Context, conn *bus.Conn, run subjects.Run) (*Policy, error) {
	record, err := bus.LookupRun(ctx, conn, run)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, fmt.Errorf("no run %s on this bus: `headrace runs` lists what there is", run)
	}
	if err != nil {
		return nil, err
	}
	if string(record.Recipe) == "{}" {
		return nil, fmt.Errorf("run %s was imported without a recipe: there is nothing to audit it by", run)
	}
	r, err := recipe.Parse("run "+string(run), record.Recipe)
	if err != nil {
		return nil, fmt.Errorf("the recipe of run %s is not one this build can read; it was made by %s: %w", run, record.Version, err)
	}
	p := &Policy{Grouper: r.Grouper}
	p.supply(r)
	if err := p.vocabulary(r, record.Tokenizer); err != nil {
		return nil, err
	}
	p.Imported = len(record.Origin) > 0
	if record.CopyOf != "" {
		p.Unknown = fmt.Sprintf("decisions are not derived again: the run is a copy, and its ledger followed from when the messages came in run %s: audit that one", record.CopyOf)
	}
	return p, p.key(ctx, conn, run)
}

// supply asks the dataset how much it has.
func (p *Policy) supply(r *recipe.Recipe) {
	p.Supply.Train = make([]uint64, max(1, len(r.Environments)))
	if p.Grouper.Source == grouper.SourceExternal {
		return
	}
	tasks := 0
	if p.Grouper.Evaluation.Every > 0 {
		tasks = p.Grouper.Evaluation.Tasks
	}
	data, err := dataset.Open(r.Dataset, tasks, r.Seed)
	if err != nil {
		p.Unknown = fmt.Sprintf("decisions are not derived again: the run's dataset is not here (%v)", err)
		return
	}
	for i := range p.Supply.Train {
		p.Supply.Train[i] = data.Groups()
	}
}

// vocabulary bounds token ids. Of a run with a vocabulary that this build does
// not make, they are not checked.
func (p *Policy) vocabulary(r *recipe.Recipe, id string) error {
	var words []string
	for _, e := range r.Played() {
		words = append(words, builtin.Specs()[e.Name].Words...)
	}
	tok, err := tokenizer.NewWords(words...)
	if err != nil {
		return err
	}
	if tok.ID() == id {
		p.Vocab = tok.VocabSize()
	}
	return nil
}

// key reads the lease key. Groups from outside have no leases.
func (p *Policy) key(ctx context.Context, conn *bus.Conn, run subjects.Run) (err error) {
	if p.Grouper.Source == grouper.SourceExternal {
		return nil
	}
	p.Key, err = bus.LeaseKey(ctx, conn, run)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return nil
	case errors.Is(err, bus.ErrPermission):
		p.Unknown = "decisions are not derived again, and forged trajectories not told: these credentials may not read the lease key (the admin's may)"
		return nil
	}
	return err
}

// cut is the state of the streams that an audit is of.
type cut struct {
	at                                    time.Time
	ledger, rollouts, weights, deadletter jetstream.StreamState
	purged                                uint64 // ROLLOUTS below it was purged on record
}

// takeCut takes the ledger's head before the streams that it rests on.
func takeCut(ctx context.Context, conn *bus.Conn, run subjects.Run) (*cut, error) {
	c := &cut{at: time.Now()}
	var err error
	for _, s := range []struct {
		stream subjects.Stream
		state  *jetstream.StreamState
	}{{subjects.Ledger, &c.ledger}, {subjects.Rollouts, &c.rollouts}, {subjects.Weights, &c.weights}, {subjects.DeadLetter, &c.deadletter}} {
		if *s.state, err = bus.StreamState(ctx, conn, run, s.stream); err != nil {
			return nil, err
		}
	}
	c.purged, err = bus.Purged(ctx, conn, run)
	return c, err
}

func (c *cut) public() Cut {
	return Cut{At: c.at, Ledger: c.ledger.LastSeq, Rollouts: c.rollouts.LastSeq, Weights: c.weights.LastSeq, DeadLetter: c.deadletter.LastSeq, Purged: c.purged}
}
