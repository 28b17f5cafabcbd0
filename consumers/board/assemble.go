package board

import (
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/subjects"
)

// State is the picture as it is now, a copy.
//
// The trainer's wait is, everywhere: the seconds that it waited for a batch, by
// its commits, as a part of the time from one commit to the next; of all steps
// but the first of each start of the trainer, whose wait is that for the run to
// come up and counts as start. What it does between a commit and its next wait
// (weights, checkpoints) is in the time, so that the part is one of the clock's.
//
// Figures of the last seconds are of the last seconds that anything was heard
// in: of a run that ended or stands, of its last.
func (b *Board) State(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := unix(now.UnixNano())
	asOf := at
	live := at-b.heard <= goneSeconds
	if !live && known(b.heard) {
		asOf = b.heard
	}
	s := State{Run: b.cfg.Run, Recipe: b.cfg.Recipe, Environments: append([]string{}, b.cfg.Environments...), Started: Number(unix(b.cfg.Started.UnixNano())),
		Now: Number(at), End: b.end, EndText: b.endText, Live: live, Step: StepState{Committed: b.trainer.committed, Cut: b.cut, Max: b.cfg.MaxSteps},
		Evals: append([]Eval{}, b.evals...), Engines: b.engines.state(at, asOf), Producers: b.producers.state(at, asOf), ProducersAll: len(b.producers.byName),
		Groups: b.groups.state(), Staleness: b.groups.stale(), StalenessMaxAllowed: b.cfg.MaxStaleness, Roles: b.roles.state(at), Advice: []Advice{}}
	connected := 0
	if b.bridge.past != nil && asOf-b.bridge.heard <= goneSeconds {
		connected = int(whole(b.bridge.trainers))
	}
	s.Trainer = b.trainer.state(connected, asOf)
	b.counts(&s)
	s.Queues = b.queues(asOf)
	s.Rates = b.rates(asOf)
	s.Syncs = b.lastSyncs()
	if b.stall.Code != "" && b.end == "" {
		s.Stall = &Stall{Code: b.stall.Code, Stage: b.stall.Stage, Text: b.stall.Text, Since: Number(unix(b.stall.Since))}
	}
	b.advise(&s, asOf)
	return s
}

// counts prefers the grouper's own account to what its ledger shows.
func (b *Board) counts(s *State) {
	a := &b.account
	if !a.said() || !known(a.produced) {
		s.Trajectories = b.groups.trajectories()
		return
	}
	s.Trajectories = a.trajectories()
	if known(a.open) {
		s.Groups.Open = Number(a.open)
	}
	if known(a.kept) {
		s.Groups.Kept = Number(a.kept)
	}
	s.Groups.Oldest = Number(a.oldest)
}

// queues are what waits between the stages, in the order it goes through them.
func (b *Board) queues(asOf float64) []Queue {
	tasks, publisher := Queue{Name: "tasks", Label: "tasks handed out", Trajectories: Unknown(), Bytes: Unknown()}, Queue{Name: "publisher", Label: "played, not yet on the bus"}
	if n, ok := b.streams[subjects.Tasks]; ok {
		tasks.Trajectories, tasks.Bytes = Number(n.Messages), Number(n.Bytes)
	} else if b.account.said() {
		tasks.Trajectories = Number(b.account.inFlight)
	}
	publisher.Trajectories = Number(b.producers.sum(asOf, func(x *producer) float64 { return x.waiting }))
	publisher.Bytes = Number(b.producers.sum(asOf, func(x *producer) float64 { return x.waitingBytes }))
	members, bytes := b.groups.keptNow()
	kept := Queue{Name: "kept", Label: "in groups that wait for a batch", Trajectories: Number(members), Bytes: Number(bytes)}
	rollouts := Queue{Name: "rollouts", Label: "in groups that are not full yet", Trajectories: Unknown(), Bytes: Unknown()}
	if b.account.said() && known(b.account.held) {
		rollouts.Trajectories = Number(max(b.account.held-float64(members), 0))
		rollouts.Bytes = Number(math.Round(float64(rollouts.Trajectories) * b.groups.body()))
	}
	delivered := b.trainer.committed
	if b.bridge.past != nil {
		delivered = max(delivered, whole(b.bridge.delivered))
	}
	members, bytes = b.groups.after(delivered)
	ready := Queue{Name: "ready", Label: "in batches for the trainer", Trajectories: Number(members), Bytes: Number(bytes)}
	return []Queue{tasks, publisher, rollouts, kept, ready}
}

func (b *Board) rates(asOf float64) Rates {
	r := Rates{Trajectories: Unknown(), Tokens: Number(b.sampled(asOf, shortSpan)), Bytes: Unknown(), TrainedTokens: Number(b.trainer.speed(pointSteps))}
	if b.account.said() {
		r.Trajectories = Number(b.account.past.rate(0, asOf, shortSpan))
	}
	if b.bridge.past != nil {
		r.Bytes = Number(b.bridge.past.rate(0, asOf, shortSpan))
	}
	return r
}

func (b *Board) lastSyncs() []Sync {
	out := append([]Sync{}, b.syncs[max(0, len(b.syncs)-mostSyncs):]...)
	slices.Reverse(out)
	return out
}

// advise asks the adviser; an advice that was there before keeps its beginning.
func (b *Board) advise(s *State, asOf float64) {
	if b.cfg.Advise == nil {
		return
	}
	for _, a := range b.cfg.Advise(b.view(s, asOf)) {
		a.Since = s.Now
		for i := range b.advice {
			if b.advice[i].Code == a.Code {
				a.Since = b.advice[i].Since
			}
		}
		if a.Evidence == nil {
			a.Evidence = []Evidence{}
		}
		s.Advice = append(s.Advice, a)
	}
	b.advice = append([]Advice(nil), s.Advice...)
}

// Heard is when the board heard of a role last; zero if never.
func (b *Board) Heard() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !known(b.heard) {
		return time.Time{}
	}
	return time.Unix(0, int64(b.heard*1e9))
}
