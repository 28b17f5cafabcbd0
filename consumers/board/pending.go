package board

import "github.com/headrace/headrace/subjects"

// pending is the step that the trainer is at, as far as it has come: as its bridge
// says each second, until the commit does.
type pending struct {
	at          float64 // when it was said
	after       int64   // the step that was committed before it
	wait, train float64
}

func (p *pending) wall() float64 { return p.wait + p.train }

// pends takes over what a bridge says of its trainer.
func (t *trainer) pends(g *subjects.Gauges, now float64) {
	wait, train := counter(g.Values, "step_wait_seconds"), counter(g.Values, "step_train_seconds")
	t.pending = pending{now, whole(counter(g.Values, "committed_step")), positive(wait), positive(train)}
	if !known(wait) || !known(train) {
		t.pending = pending{}
	}
}

// going is the step that the trainer is at; of one that is over, or that nobody
// speaks of any more, nothing.
func (t *trainer) going(asOf float64) pending {
	if p := t.pending; asOf-p.at <= goneSeconds && p.after == t.last {
		return p
	}
	return pending{}
}

// overdue is the step that the trainer is at once that has taken longer than
// steps do: before, nothing follows from how far it has come.
func (t *trainer) overdue(asOf float64) (p pending, ok bool) {
	if p = t.going(asOf); p.wall() > 0 && p.wall() >= t.median() {
		return p, true
	}
	return pending{}, false
}

// nowSeconds are for people: unknown where no step is going on.
func (p *pending) nowSeconds() (wait, train Number) {
	if p.wall() == 0 {
		return Unknown(), Unknown()
	}
	return Number(p.wait), Number(p.train)
}

// tell adds to the moments of the span seconds before it was said what is not in
// a diary whose newest moment is that.
func (p *pending) tell(sum *moments, span, newest float64) {
	from := max(p.at-span, newest)
	began := p.at - p.train
	sum[doWait] += max(began-max(from, began-p.wait), 0)
	sum[doTrain] += max(min(p.at-from, p.train), 0)
}
