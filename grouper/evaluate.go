package grouper

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// round is one evaluation: every held-out task, each played some times. Its
// episodes lie by task, then by slot.
type round struct {
	lifetime
	step     subjects.Step
	episodes []episode
	spares   []spare // further trajectories of filled episodes, of other attempts
	came     map[tried]struct{}
	pending  int  // episodes that may still come
	failed   bool // one is to be handed out again
}

type episode struct {
	slot
	played
}

// played is what came of an episode.
type played struct {
	at       subjects.Address
	attempt  subjects.Attempt
	reward   float64
	min, max subjects.PolicyVersion
}

// tried names an attempt at an episode of a round.
type tried struct{ episode, attempt int }

// comes notes that something came of an attempt; false if something had before.
func (r *round) comes(episode int, a subjects.Attempt) bool {
	at := tried{episode, int(a)}
	if _, before := r.came[at]; before {
		return false
	}
	if r.came == nil {
		r.came = make(map[tried]struct{}, len(r.episodes))
	}
	r.came[at] = struct{}{}
	return true
}

type spare struct {
	episode int
	played
}

func (r *round) recount() {
	r.pending = 0
	for i := range r.episodes {
		if r.episodes[i].slot.pending() {
			r.pending++
		}
	}
}

// dueRound is the newest step that wants an evaluation and has none.
func (c *Core) dueRound() (step subjects.Step, due bool) {
	every := subjects.Step(c.cfg.Evaluation.Every)
	if every == 0 {
		return 0, false
	}
	committed := c.trainer.committed
	step = committed - committed%every
	if last, known := c.final(); known && committed >= last {
		step = last
	}
	return step, step > c.lastRound
}

// openRounds issues the evaluation that is due, once the weights that it is to measure
// are being served.
func (c *Core) openRounds(e *subjects.Entry, now int64) {
	step, due := c.dueRound()
	if !due || (step > 0 && c.behind(now)) {
		return
	}
	i := subjects.Issue{Kind: subjects.Eval, Count: c.cfg.Evaluation.Tasks, Round: step, Step: c.trainer.committed}
	e.Issued = append(e.Issued, i)
	c.applyIssue(&i, e.At)
}

func (c *Core) openRound(step subjects.Step, tasks int, at int64) {
	c.order++
	n := tasks * c.cfg.Evaluation.Episodes()
	r := &round{lifetime: lifetime{order: c.order, opened: at}, step: step, episodes: make([]episode, n), pending: n}
	for i := range r.episodes {
		r.episodes[i].issued = at
	}
	c.rounds = append(c.rounds, r)
	c.starting = append(c.starting, &r.lifetime)
	c.lastRound = max(c.lastRound, step)
}

// episode finds the place of an evaluation trajectory; nil if there is none.
func (c *Core) episode(e *subjects.IndexEntry) (*round, int) {
	at := strings.LastIndexByte(string(e.Group), '-')
	i, err := strconv.Atoi(string(e.Group[at+1:]))
	per := c.cfg.Evaluation.Episodes()
	for _, r := range c.rounds {
		if n := i*per + int(e.Slot); err == nil && r.step == e.Round && i >= 0 && int(e.Slot) < per && n < len(r.episodes) {
			return r, n
		}
	}
	return nil, 0
}

func (c *Core) evalArrival(a subjects.Address, at int64, e *subjects.IndexEntry) {
	r, i := c.episode(e)
	if r == nil {
		c.stats.EvalUnused++
		return
	}
	c.needs(&r.lifetime, cmp.Or(c.begins, a.Seq))
	c.start(r.order, at)
	if !r.comes(i, e.Attempt) {
		c.stats.EvalUnused++
		return
	}
	ep, came := &r.episodes[i], played{a, e.Attempt, e.Reward, e.MinVersion, e.MaxVersion}
	switch {
	case !e.Status.Trained():
		c.loseEpisode(r, ep, e.Attempt, causeOf(e.Status))
	case c.isRejected(a):
		c.loseEpisode(r, ep, e.Attempt, causeRejected)
	case ep.filled:
		r.spares = append(r.spares, spare{i, came})
	default:
		ep.filled, ep.played = true, came
		r.recount()
	}
}

func (c *Core) loseEpisode(r *round, ep *episode, a subjects.Attempt, why cause) {
	if ep.lose(a, why, *c.cfg.SlotRetries) {
		r.recount()
		r.failed = true
	}
}

func (c *Core) rejectEpisodes(r *round, a subjects.Address) {
	r.spares = slices.DeleteFunc(r.spares, func(s spare) bool {
		hit := hits(s.at, a)
		if hit {
			c.loseEpisode(r, &r.episodes[s.episode], s.attempt, causeRejected)
		}
		return hit
	})
	for i := range r.episodes {
		ep := &r.episodes[i]
		if !ep.filled || !hits(ep.at, a) {
			continue
		}
		came := ep.played.attempt
		ep.filled, ep.played = false, played{}
		c.loseEpisode(r, ep, came, causeRejected)
		if at := slices.IndexFunc(r.spares, func(s spare) bool { return s.episode == i }); at >= 0 {
			ep.filled, ep.played = true, r.spares[at].played
			r.spares = slices.Delete(r.spares, at, at+1)
		}
		r.recount()
		r.failed = true
	}
}

func (c *Core) retryEpisodes(e *subjects.Entry, r *round) {
	if !r.failed {
		return
	}
	r.failed = false
	per := c.cfg.Evaluation.Episodes()
	for i := range r.episodes {
		if ep := &r.episodes[i]; ep.state == failed && !ep.filled {
			e.Retries = append(e.Retries, subjects.Retry{Kind: subjects.Eval, Group: subjects.EvalGroup(r.step, i/per),
				Slot: subjects.Slot(i % per), Attempt: subjects.Attempt(ep.slot.attempt) + 1, Reason: causes[ep.cause]})
			c.applyRetry(&e.Retries[len(e.Retries)-1], e.At)
		}
	}
}

func (c *Core) applyEvalRetry(r *subjects.Retry, at int64) {
	step, _, _ := strings.Cut(strings.TrimPrefix(string(r.Group), "e"), "-")
	n, _ := strconv.ParseInt(step, 10, 64)
	round, i := c.episode(&subjects.IndexEntry{Group: r.Group, Slot: r.Slot, Round: subjects.Step(n)})
	if round == nil {
		return
	}
	s := &round.episodes[i].slot
	s.attempt, s.state, s.cause, s.issued = int16(r.Attempt), waiting, causeNone, at
	round.recount()
}

// closeRounds reports the rounds that are played, or due.
func (c *Core) closeRounds(e *subjects.Entry, now int64) {
	for _, r := range slices.Clone(c.rounds) {
		due := r.due(now, int64(c.cfg.Evaluation.Deadline))
		if (r.pending > 0 && !due) || (*c.cfg.Inspect && r.newest() > c.inspected) {
			continue
		}
		e.Evals = append(e.Evals, c.result(r))
		c.applyEval(&e.Evals[len(e.Evals)-1])
	}
}

func (r *round) newest() (seq uint64) {
	for i := range r.episodes {
		if r.episodes[i].filled {
			seq = max(seq, r.episodes[i].at.Seq)
		}
	}
	return seq
}

func (c *Core) applyEval(v *subjects.EvalResult) {
	c.rounds = slices.DeleteFunc(c.rounds, func(r *round) bool {
		if r.step == v.Round {
			r.gone = true
		}
		return r.gone
	})
}

// mean is a running mean.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) { m.sum += v; m.n++ }

func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / m.n
}

func (c *Core) result(r *round) subjects.EvalResult {
	per, samples := c.cfg.Evaluation.Episodes(), c.cfg.Evaluation.Samples
	out := subjects.EvalResult{Round: r.step, Tasks: len(r.episodes) / per, MinVersion: subjects.NoVersion, MaxVersion: subjects.NoVersion}
	var sampled, greedy mean
	for i := range r.episodes {
		ep := &r.episodes[i]
		if !ep.filled {
			out.Failed++
			continue
		}
		if i%per < samples {
			sampled.add(ep.reward)
		} else {
			greedy.add(ep.reward)
		}
		if ep.min != subjects.NoVersion && (out.MinVersion == subjects.NoVersion || ep.min < out.MinVersion) {
			out.MinVersion = ep.min
		}
		out.MaxVersion = max(out.MaxVersion, ep.max)
	}
	out.Sampled, out.Greedy = sampled.value(), greedy.value()
	return out
}
