package metrics

import "github.com/headrace/headrace/subjects"

// Buckets, in seconds, of what takes milliseconds and of what takes minutes.
var (
	quick = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	slow  = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
)

// trainerMetrics are the names of a commit that are shown: a user's trainer may
// send any.
var trainerMetrics = []string{"loss", "policy_loss", "kl", "entropy", "grad_norm", "lr", "clip_fraction", "ratio_mean", "ratio_max", "is_weight_mean",
	"importance_mean", "importance_max", "logp_diff_mean", "logp_diff_max", "compiles", "compile_seconds"}

var ends = []string{subjects.EndComplete, subjects.EndDataset, subjects.EndEmptyDataset, subjects.EndAllStale, subjects.EndAllFiltered,
	subjects.EndNoProducers, subjects.EndEngineGone, subjects.EndDiskFull, subjects.EndCancelled}

var outcomes = []string{string(subjects.Kept), string(subjects.Partial), string(subjects.ZeroVariance), string(subjects.Expired), string(subjects.TooFew), string(subjects.Stale), string(subjects.Cancelled)}

// named are label values that come from no gauge.
func named(values ...string) (out []Value) {
	for _, v := range values {
		out = append(out, Value{Label: v})
	}
	return out
}

var logFamilies = []Family{
	{Name: "headrace_episodes_total", Kind: Counter, From: FromLog, Label: "environment,status", Help: "Trajectories in ROLLOUTS, by environment of the recipe and status."},
	{Name: "headrace_evaluation_episodes_total", Kind: Counter, From: FromLog, Label: "status", Values: named("succeeded", "truncated", "overlong", "failed", "aborted"), Help: "Of them those of evaluations."},
	{Name: "headrace_trajectory_tokens", Kind: Histogram, From: FromLog, Buckets: []float64{16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}, Help: "Tokens of a trajectory."},
	{Name: "headrace_rollouts_read_bytes_total", Kind: Counter, From: FromLog, Help: "Bytes of the messages in ROLLOUTS."},
	{Name: "headrace_rollouts_unreadable_total", Kind: Counter, From: FromLog, Help: "Index entries in ROLLOUTS that cannot be read."},
	{Name: "headrace_groups_issued_total", Kind: Counter, From: FromLog, Label: "kind", Values: named("train", "eval"), Help: "Groups whose tasks were issued; of evaluations the rounds."},
	{Name: "headrace_groups_total", Kind: Counter, From: FromLog, Label: "outcome", Values: named(outcomes...), Help: "Groups closed; one that was kept and then went stale counts as both."},
	{Name: "headrace_group_seconds", Kind: Histogram, From: FromLog, Buckets: slow, Help: "Time from a group's opening to its verdict."},
	{Name: "headrace_slot_retries_total", Kind: Counter, From: FromLog, Help: "Slots handed out again."},
	{Name: "headrace_staleness_versions", Kind: Histogram, From: FromLog, Buckets: []float64{0, 1, 2, 3, 4, 6, 8, 12, 16, 32}, Help: "How many versions older than its step a trained trajectory's oldest token is."},
	{Name: "headrace_batch_groups", Kind: Gauge, From: FromLog, Help: "Groups of the newest batch."},
	{Name: "headrace_batch_rows", Kind: Gauge, From: FromLog, Help: "Rows of the newest batch."},
	{Name: "headrace_batch_reward", Kind: Gauge, From: FromLog, Label: "of", Values: named("mean", "std"), Help: "Reward of the newest batch's trajectories: their mean and standard deviation."},
	{Name: "headrace_batch_tokens_total", Kind: Counter, From: FromLog, Help: "Tokens of the batches cut."},
	{Name: "headrace_evaluation_reward", Kind: Gauge, From: FromLog, Label: "sampling", Values: named("sampled", "greedy"), Help: "Mean reward of the newest evaluation."},
	{Name: "headrace_evaluation_round", Kind: Gauge, From: FromLog, Help: "Step of the newest evaluation."},
	{Name: "headrace_step", Kind: Gauge, From: FromLog, Label: "at", Values: named("cut", "committed", "checkpointed", "max"), Help: "Last step that is cut, trained, saved; and how many there are to be."},
	{Name: "headrace_train_step_seconds", Kind: Histogram, From: FromLog, Buckets: slow, Help: "Time of a training step, without the wait for its batch."},
	{Name: "headrace_trainer_wait_seconds_total", Kind: Counter, From: FromLog, Help: "Time that the trainer waited for batches."},
	{Name: "headrace_trained_tokens_total", Kind: Counter, From: FromLog, Help: "Tokens of the steps trained."},
	{Name: "headrace_trainer_starts_total", Kind: Counter, From: FromLog, Help: "Trainers that connected."},
	{Name: "headrace_trainer_metric", Kind: Gauge, From: FromLog, Label: "name", Values: named(trainerMetrics...), Help: "What the trainer said of its newest step, by the name it gave; of a user's own names those it shares with the reference trainer."},
	{Name: "headrace_policy_version", Kind: Gauge, From: FromLog, Label: "role", Values: named("trainer", "engine", "rollout"), Help: "Newest policy version that the trainer announced, an engine loaded, a trajectory was sampled by."},
	{Name: "headrace_weight_sync_duration_seconds", Kind: Histogram, From: FromLog, Label: "phase", Values: named("pause", "load", "verify", "resume"), Buckets: quick, Help: "Time that an engine took for a phase of loading a version."},
	{Name: "headrace_weight_sync_failures_total", Kind: Counter, From: FromLog, Help: "Versions that an engine could not load."},
	{Name: "headrace_run_ended", Kind: Gauge, From: FromLog, Label: "reason", Values: named(ends...), Help: "1 for why the run ended; all 0 while it goes on."},
	{Name: "headrace_trainer_phase_seconds_total", Kind: Counter, From: FromSpans, Label: "phase",
		Values: []Value{{"start", "start"}, {"wait", "wait for batch"}, {"prepare", "prepare"}, {"train", "train step"}, {"checkpoint", "checkpoint"}, {"publish", "publish weights"}, {"compile", "compile"}},
		Help:   "Where the trainer's time goes, of its first process; compiling is part of training."},
}

var bodyFamilies = []Family{
	{Name: "headrace_episode_duration_seconds", Kind: Histogram, From: FromBodies, Buckets: slow, Help: "Time of an episode, of those the exporter looked into."},
	{Name: "headrace_turns_per_episode", Kind: Histogram, From: FromBodies, Buckets: []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256}, Help: "Turns of an episode, of those the exporter looked into."},
	{Name: "headrace_generate_duration_seconds", Kind: Histogram, From: FromBodies, Buckets: quick, Help: "Time of a model call, of the episodes the exporter looked into."},
	{Name: "headrace_environment_step_duration_seconds", Kind: Histogram, From: FromBodies, Buckets: quick, Help: "Time of an environment's answer, of the episodes the exporter looked into."},
	{Name: "headrace_episodes_sampled_total", Kind: Counter, From: FromBodies, Help: "Episodes that the exporter looked into: all of a small run, of a large one what the budget allows."},
}

var streamFamilies = []Family{
	{Name: "headrace_bus_stream_messages", Kind: Gauge, From: FromStreams, Label: "stream", Help: "Messages in a stream of the run; in TASKS those that wait or are leased."},
	{Name: "headrace_bus_stream_bytes", Kind: Gauge, From: FromStreams, Label: "stream", Help: "Bytes in a stream of the run."},
	{Name: "headrace_bus_stream_limit_bytes", Kind: Gauge, From: FromStreams, Label: "stream", Help: "Bytes that a stream of the run may hold."},
}

var processFamilies = []Family{
	{Name: "headrace_build_info", Kind: Gauge, From: FromProcess, Help: "1, with the build's version."},
	{Name: "headrace_bus_connected", Kind: Gauge, From: FromProcess, Help: "Whether the process is connected to the bus."},
	{Name: "headrace_bus_reconnects_total", Kind: Counter, From: FromProcess, Help: "Connections to the bus that broke and came back."},
	{Name: "headrace_bus_received_bytes_total", Kind: Counter, From: FromProcess, Help: "Bytes received from the bus."},
	{Name: "headrace_bus_sent_bytes_total", Kind: Counter, From: FromProcess, Help: "Bytes sent to the bus."},
	{Name: "headrace_telemetry_reports_total", Kind: Counter, From: FromProcess, Help: "Reports of roles that were read for this page."},
	{Name: "headrace_telemetry_reports_ignored_total", Kind: Counter, From: FromProcess, Help: "Reports that were not: unreadable, or of more instances than there is room for."},
}
