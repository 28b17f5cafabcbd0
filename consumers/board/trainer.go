package board

import (
	"math"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// What the trainer's time is spent on: places in a [moments].
const (
	doWait = iota
	doTrain
	doCheckpoint
	doPublish
	doPrepare
	doCompile
	doStart
	doings
)

const trainerRole = "trainer"

// doing names the trainer's spans, as its wire format has them.
var doing = map[string]int{"wait for batch": doWait, "train step": doTrain, "checkpoint": doCheckpoint, "publish weights": doPublish,
	"prepare": doPrepare, "compile": doCompile, "start": doStart}

// moments are seconds by what was done in them.
type moments [doings]float64

func (m *moments) times() Times {
	return Times{Wait: Number(m[doWait]), Train: Number(m[doTrain]), Checkpoint: Number(m[doCheckpoint]), Publish: Number(m[doPublish]),
		Prepare: Number(m[doPrepare]), Compile: Number(m[doCompile]), Start: Number(m[doStart])}
}

func (m *moments) sum() (s float64) {
	for _, x := range m {
		s += x
	}
	return s
}

// parts are the moments as parts of their sum.
func (m *moments) parts() moments {
	out, all := *m, m.sum()
	for i := range out {
		out[i] /= all
	}
	return out
}

// trainer is what is known of the trainer: from its commits, which are all
// there, and from its spans, as far back as TELEMETRY goes.
type trainer struct {
	version, checkpoint int64
	committed, starts   int64
	incarnation         int
	begun               bool
	lastAt              float64 // of the last commit
	firstAt             float64 // of the first commit of this start

	byCommits       moments // wait, train, compile and the first waits as start
	bySpans         moments
	wait, wall      float64 // of all steps but the first of each start
	trained         float64 // in them, compiling included
	recompiled      float64 // in them
	compiles        int64
	steps           []stepTime // the last of them
	commits, inside diary      // the last seconds: by commits, by spans
	rank            string     // whose spans are looked at
	starting        bool       // by its spans: it has not trained since its start
	last            int64      // the step of its last commit
	pending         pending
}

// stepTime is where the time from one commit to the next went.
type stepTime struct {
	wall, wait, train, compile, tokens float64
	first                              bool
}

// commit folds a commit in and fills its row.
func (t *trainer) commit(e *subjects.CommitEvent, r *row) {
	at, wait, train := unix(e.At), positive(e.WaitSeconds), positive(e.TrainSeconds)
	first := !t.begun || e.Incarnation != t.incarnation
	wall := wait + train
	if !first && at > t.lastAt {
		wall = max(wall, at-t.lastAt) // weights and checkpoints are written after a commit
	}
	t.begun, t.incarnation, t.lastAt = true, e.Incarnation, at
	compile := min(positive(e.Metrics["compile_seconds"]), train)
	t.compiles += whole(e.Metrics["compiles"])
	t.byCommits[doTrain] += train - compile
	t.byCommits[doCompile] += compile
	waiting := doWait
	if first {
		waiting, t.firstAt = doStart, at
	} else {
		t.wait, t.wall = t.wait+wait, t.wall+wall
	}
	t.byCommits[waiting] += wait
	t.commits.add(waiting, at-train-wait, at-train, 1)
	t.commits.add(doTrain, at-train, at, 1)
	if !first {
		t.trained, t.recompiled = t.trained+train, t.recompiled+compile
	}
	t.last, t.committed = int64(e.Step), max(t.committed, int64(e.Step))
	t.steps = append(t.steps, stepTime{wall, wait, train - compile, compile, positive(float64(e.Tokens)), first})
	if len(t.steps) > 2*medianSteps {
		t.steps = slices.Clone(t.steps[len(t.steps)-medianSteps:])
	}
	r.committed, r.committedAt = true, at
	r.train, r.wait, r.wall = float32(train), float32(wait), float32(wall)
}

// longestStep bounds the seconds that one event can claim: a month.
const longestStep = 31 * 24 * 3600

// positive is a number of seconds, or 0 where it is none.
func positive(x float64) float64 {
	if x > 0 {
		return min(x, longestStep)
	}
	return 0
}

// spans folds in what the trainer did, of its first rank alone: the others do the same.
func (t *trainer) spans(b *subjects.SpanBatch, now float64) {
	if b.Role != trainerRole || t.rank != "" && b.Instance > t.rank || !subjects.ValidToken(b.Instance) {
		return
	}
	list, err := b.Spans()
	if err != nil {
		return
	}
	t.rank = b.Instance
	for i := range list {
		s := &list[i]
		what, ok := doing[s.Name]
		seconds := float64(s.Duration) / 1e9
		from := float64(s.Start)/1e9 + float64(b.Offset)/1e9
		if !ok || (s.Lane == 0) == (what == doCompile) || from+seconds > now+mostSkew || seconds > longestStep {
			continue
		}
		t.bySpans[what] += seconds
		switch {
		case what == doStart:
			t.starting = true
		case what == doTrain || what == doPrepare:
			t.starting = false
		case what == doWait && t.starting:
			what = doStart // as in its commit
		}
		t.inside.add(what, from, from+seconds, 1)
		if what == doCompile { // within a train step
			t.bySpans[doTrain] -= seconds
			t.inside.add(doTrain, from, from+seconds, -1)
		}
	}
}

// mostSkew is how far ahead of the server a clock is believed, seconds.
const mostSkew = 60

// seconds are those since the run's start.
func (t *trainer) seconds() moments {
	all := t.byCommits
	for _, what := range []int{doCheckpoint, doPublish, doPrepare} {
		all[what] = max(t.bySpans[what], 0)
	}
	all[doStart] += t.bySpans[doStart]
	all[doTrain] = max(all[doTrain]-all[doPrepare], 0) // a commit's training has both
	return all
}

// state is the trainer for people.
func (t *trainer) state(connected int, asOf float64) Trainer {
	all := t.seconds()
	out := Trainer{Connected: connected, Seconds: all.times(), Wait: Number(math.NaN()), Compiles: t.compiles, Resumes: max(t.starts-1, 0),
		Version: t.version, Checkpoint: t.checkpoint, StepSeconds: Number(t.median()), TokensPerSecond: Number(t.speed(recentSteps))}
	if t.wall > 0 {
		out.Wait = Number(fraction(t.wait / t.wall))
	}
	out.RecentSeconds = Number(lookBack(out.StepSeconds))
	recent := t.recent(float64(out.RecentSeconds), asOf)
	out.Recent = recent.times()
	p := t.going(asOf)
	out.NowWait, out.NowTrain = p.nowSeconds()
	return out
}

// recent are the parts of its last span seconds: by its spans, or by its commits
// where those tell of more; and by what its bridge says of the step that it is at.
func (t *trainer) recent(span, asOf float64) moments {
	p := t.going(asOf)
	by, newest := t.inside.last(span, p.at), t.inside.newest
	if rough := t.commits.last(span, p.at); newest < t.commits.newest-span || by.sum() < rough.sum()/2 {
		by, newest = rough, t.commits.newest
	}
	p.tell(&by, span, newest)
	return by.parts()
}

// running are the seconds of all steps but the first of each start.
func (t *trainer) running() moments {
	m := moments{doWait: t.wait, doTrain: t.trained - t.recompiled, doCompile: t.recompiled}
	m[doPublish] = max(t.wall-t.wait-t.trained, 0)
	return m
}

// lately is where the time of the last steps went that took so many seconds
// together, of so many at least, starts left out, and of one that is overdue. What
// is not known to be anything else is writing, here weights.
func (t *trainer) lately(seconds float64, least int, asOf float64) (sum moments) {
	if p, ok := t.overdue(asOf); ok {
		sum[doWait], sum[doTrain] = p.wait, p.train
	}
	n := 0
	for i := len(t.steps) - 1; i >= 0 && (n < least || sum.sum() < seconds); i-- {
		if s := &t.steps[i]; !s.first {
			n++
			sum[doWait] += s.wait
			sum[doTrain] += s.train
			sum[doCompile] += s.compile
			sum[doPublish] += max(s.wall-s.wait-s.train-s.compile, 0)
		}
	}
	return sum
}

// median is that of the last steps' wall time.
func (t *trainer) median() float64 {
	var walls []float64
	for i := len(t.steps) - 1; i >= 0 && len(walls) < medianSteps; i-- {
		if !t.steps[i].first {
			walls = append(walls, t.steps[i].wall)
		}
	}
	if len(walls) == 0 {
		return math.NaN()
	}
	slices.Sort(walls)
	return (walls[len(walls)/2] + walls[(len(walls)-1)/2]) / 2
}

// speed is the tokens a second of the last n steps.
func (t *trainer) speed(n int) float64 {
	tokens, wall := 0.0, 0.0
	for i := len(t.steps) - 1; i >= 0 && n > 0; i, n = i-1, n-1 {
		if !t.steps[i].first {
			tokens, wall = tokens+t.steps[i].tokens, wall+t.steps[i].wall
		}
	}
	return tokens / wall
}
