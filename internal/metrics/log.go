package metrics

import (
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Log folds a run's log into the table's numbers. Read from its start, the log
// gives the same numbers to whoever reads it and whenever, so one exporter of a
// run is as good as another, and one that starts again goes on where it was. It
// is safe for concurrent use.
type Log struct {
	*vectors
	environments []string
}

// NewLog is the fold of a run of these environments; others, which no task names,
// are counted as "other". Steps is how many the run is to have, 0 if nobody knows.
func NewLog(environments []string, steps subjects.Step) *Log {
	l := &Log{vectors: newVectors(FromLog, FromBodies, FromStreams, FromSpans), environments: environments}
	if steps > 0 {
		l.set("headrace_step", float64(steps), "max")
	}
	for _, reason := range ends {
		l.set("headrace_run_ended", 0, reason)
	}
	return l
}

// Header folds what a message of ROLLOUTS says of its trajectories.
func (l *Log) Header(index []string, bytes int) {
	l.count("headrace_rollouts_read_bytes_total", float64(bytes))
	for _, text := range index {
		e, err := subjects.ParseIndex(text)
		if err != nil {
			l.count("headrace_rollouts_unreadable_total", 1)
			continue
		}
		l.count("headrace_episodes_total", 1, l.environment(e.Environment), string(e.Status))
		if e.Kind == subjects.Eval {
			l.count("headrace_evaluation_episodes_total", 1, string(e.Status))
		}
		l.observe("headrace_trajectory_tokens", float64(e.Tokens))
		if e.MaxVersion >= 0 {
			l.set("headrace_policy_version", float64(e.MaxVersion), "rollout")
		}
	}
}

func (l *Log) environment(name string) string {
	if slices.Contains(l.environments, name) {
		return name
	}
	return other
}

// Entry folds a ledger entry.
func (l *Log) Entry(e *subjects.Entry) {
	for _, i := range e.Issued {
		l.count("headrace_groups_issued_total", float64(i.Count), known(string(i.Kind), "train", "eval"))
	}
	l.count("headrace_slot_retries_total", float64(len(e.Retries)))
	for i := range e.Verdicts {
		v := &e.Verdicts[i]
		l.count("headrace_groups_total", 1, known(string(v.Outcome), outcomes...))
		l.observe("headrace_group_seconds", time.Duration(v.Closed-v.Opened).Seconds())
	}
	for i := range e.Batches {
		l.batch(&e.Batches[i])
	}
	for _, v := range e.Evals {
		l.set("headrace_evaluation_round", float64(v.Round))
		l.set("headrace_evaluation_reward", v.Sampled, "sampled")
		l.set("headrace_evaluation_reward", v.Greedy, "greedy")
	}
	if e.End != "" {
		l.set("headrace_run_ended", 1, known(e.End, ends...))
	}
}

func (l *Log) batch(b *subjects.Batch) {
	l.set("headrace_step", float64(b.Step), "cut")
	l.set("headrace_batch_groups", float64(len(b.Groups)))
	l.set("headrace_batch_rows", float64(b.Rows))
	l.count("headrace_batch_tokens_total", float64(b.Tokens))
	n, mean, squares := 0.0, 0.0, 0.0
	for i := range b.Groups {
		for j := range b.Groups[i].Members {
			m := &b.Groups[i].Members[j]
			if m.MinVersion >= 0 {
				l.observe("headrace_staleness_versions", float64(max(0, int64(b.Step)-1-int64(m.MinVersion))))
			}
			n++
			d := m.Reward - mean
			mean += d / n
			squares += d * (m.Reward - mean)
		}
	}
	l.set("headrace_batch_reward", b.RewardMean, "mean")
	if n > 0 {
		l.set("headrace_batch_reward", math.Sqrt(squares/n), "std")
	}
}

// Commit folds a step that the trainer applied.
func (l *Log) Commit(e *subjects.CommitEvent) {
	l.set("headrace_step", float64(e.Step), "committed")
	l.observe("headrace_train_step_seconds", e.TrainSeconds)
	l.count("headrace_trainer_wait_seconds_total", e.WaitSeconds)
	l.count("headrace_trained_tokens_total", float64(e.Tokens))
	for _, name := range trainerMetrics {
		if v, ok := e.Metrics[name]; ok {
			l.set("headrace_trainer_metric", v, name)
		}
	}
}

// Checkpoint folds a checkpoint.
func (l *Log) Checkpoint(e *subjects.CheckpointEvent) {
	l.set("headrace_step", float64(e.Step), "checkpointed")
}

// Version folds an announcement of weights.
func (l *Log) Version(e *subjects.VersionEvent) {
	l.set("headrace_policy_version", float64(e.Version), "trainer")
}

// Resumed folds the start of a trainer.
func (l *Log) Resumed(*subjects.ResumedEvent) { l.count("headrace_trainer_starts_total", 1) }

// Ack folds an engine's answer to a version.
func (l *Log) Ack(e *subjects.AckEvent) {
	if e.Error != "" {
		l.count("headrace_weight_sync_failures_total", 1)
		return
	}
	l.set("headrace_policy_version", float64(e.Version), "engine")
	for phase, s := range map[string]float64{"pause": e.PauseSeconds, "load": e.LoadSeconds, "verify": e.VerifySeconds, "resume": e.ResumeSeconds} {
		l.observe("headrace_weight_sync_duration_seconds", s, phase)
	}
}

// Trajectory folds one that was looked into.
func (l *Log) Trajectory(t *subjects.Trajectory) {
	l.count("headrace_episodes_sampled_total", 1)
	l.observe("headrace_turns_per_episode", float64(len(t.Turns)))
	l.observe("headrace_episode_duration_seconds", time.Duration(t.Finished-t.Started).Seconds())
	for i := range t.Turns {
		u := &t.Turns[i]
		if u.Queued > 0 && u.Generated >= u.Queued {
			l.observe("headrace_generate_duration_seconds", time.Duration(u.Generated-u.Queued).Seconds())
			if u.Stepped >= u.Generated {
				l.observe("headrace_environment_step_duration_seconds", time.Duration(u.Stepped-u.Generated).Seconds())
			}
		}
	}
}

// Spans folds what the trainer's first process says it did.
func (l *Log) Spans(b *subjects.SpanBatch) {
	if b.Role != roleTrainer || b.Instance != firstRank {
		return
	}
	spans, err := b.Spans()
	if err != nil {
		return
	}
	for i := range spans {
		if phase, ok := phases[spans[i].Name]; ok {
			l.count("headrace_trainer_phase_seconds_total", time.Duration(spans[i].Duration).Seconds(), phase)
		}
	}
}

const firstRank = "rank0"

// phases are the names of the trainer's spans and what they are called here.
var phases = func() map[string]string {
	m := map[string]string{}
	for _, f := range among(FromSpans) {
		for _, v := range f.Values {
			m[v.Gauge] = v.Label
		}
	}
	return m
}()

// Stream notes what the server says of a stream.
func (l *Log) Stream(s subjects.Stream, messages, bytes uint64, limit int64) {
	l.set("headrace_bus_stream_messages", float64(messages), string(s))
	l.set("headrace_bus_stream_bytes", float64(bytes), string(s))
	l.set("headrace_bus_stream_limit_bytes", float64(limit), string(s))
}

// known bounds a label's values.
func known(value string, values ...string) string {
	if slices.Contains(values, value) {
		return value
	}
	return other
}
