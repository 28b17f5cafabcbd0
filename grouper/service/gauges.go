package service

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/subjects"
)

// untouched is how long tasks lie in the queue before that is what is waited for.
const untouched = 20 * time.Second

// gauges is what the report says beside the core's own view.
type gauges struct {
	malformed uint64 // index entries that could not be read, messages without any
	missing   uint64 // sequences of ROLLOUTS that are not there
	inspected uint64 // ROLLOUTS sequence
	entries   uint64 // ledger entries written in this session
	blamed    blame
}

// blame is what the gate turned away since the last report: one line a second,
// however much it is.
type blame struct {
	messages, entries int
	producer          string // of the last
	seq               uint64
	why               error
}

func (g *gauges) blame(a *subjects.Admission, seq uint64) {
	b := &g.blamed
	b.messages, b.entries = b.messages+1, b.entries+a.Refused
	b.producer, b.seq, b.why = a.Producer, seq, a.Err
}

// accuse logs what was turned away, and says so for people.
func (s *session) accuse() (text string) {
	b := s.report.blamed
	if s.report.blamed = (blame{}); b.messages == 0 {
		return ""
	}
	s.cfg.Log.Warn().Int("messages", b.messages).Int("trajectories", b.entries).Str("producer", b.producer).
		Uint64("seq", b.seq).Err(b.why).Msg("rollouts turned away: revoke a producer that goes on like this")
	return fmt.Sprintf("; %d messages of producer %s turned away: %v", b.messages, b.producer, b.why)
}

// note counts and logs an entry that was written.
func (s *session) note(e *subjects.Entry) {
	s.report.entries++
	s.dog.wrote(time.Now(), e)
	for i := range e.Batches {
		b := &e.Batches[i]
		s.cfg.Log.Debug().Int64("step", int64(b.Step)).Int("groups", len(b.Groups)).Int("rows", b.Rows).Int("tokens", b.Tokens).
			Float64("reward", b.RewardMean).Float64("staleness", b.StalenessMean).Msg("batch cut")
	}
	for _, v := range e.Evals {
		s.cfg.Log.Info().Int64("step", int64(v.Round)).Float64("reward", v.Sampled).Float64("greedy", v.Greedy).Int("failed", v.Failed).Msg("evaluated")
	}
}

// publishGauges reports once. Lost reports are not missed.
func (s *session) publishGauges(now time.Time) {
	accused := s.accuse()
	if s.replay != nil {
		s.dog.busy(now)
		return
	}
	v, st := s.core.View(now.UnixNano()), s.core.Stats()
	_, weights := s.core.Marks()
	s.dog.see(now, v, s.head, weights, s.report.inspected)
	values := map[string]float64{
		"open_groups": float64(v.Open), "kept_groups": float64(v.Kept), "held_trajectories": float64(v.Held),
		"slots_in_flight": float64(v.InFlight), "evaluations_open": float64(v.Rounds),
		"committed_step": float64(v.Committed), "next_step": float64(v.NextStep),
		"produced": float64(st.Produced), "trained": float64(st.Trained), "evaluation_unused": float64(st.EvalUnused),
		"malformed_headers": float64(s.report.malformed), "rollouts_missing": float64(s.report.missing), "inspected": float64(s.report.inspected), "ledger_entries": float64(s.report.entries),
	}
	if v.Oldest > 0 {
		values["oldest_group_seconds"] = time.Duration(now.UnixNano() - v.Oldest).Seconds()
	}
	for reason, n := range st.Dropped {
		values["dropped_"+string(reason)] = float64(n)
	}
	for outcome, n := range st.Outcomes {
		values["groups_"+string(outcome)] = float64(n)
	}
	text := v.Waiting
	if age := now.Sub(time.Unix(0, v.Opened)); v.Untouched && age > untouched {
		text = fmt.Sprintf("tasks: no producer took one for %d s", int(age.Seconds()))
	}
	data, err := subjects.EncodeMessage(&subjects.Gauges{V: subjects.SchemaVersion, Role: "grouper", Instance: s.cfg.Writer,
		At: now.UnixNano(), Values: values, Text: "waiting for " + text + accused})
	if err == nil {
		err = s.cfg.Conn.Tell(s.cfg.Run.TelemetrySubject("grouper", s.cfg.Writer), data)
	}
	if err != nil {
		s.cfg.Log.Debug().Err(err).Msg("report")
	}
}
