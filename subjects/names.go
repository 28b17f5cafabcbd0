package subjects

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Run names one training run: the key of its streams, subjects and records.
type Run string

// GroupID names the group of trajectories that share one task.
type GroupID string

// Slot is a trajectory's place in its group, 0 to group size (plus oversampling) - 1.
type Slot int

// Attempt counts how often a slot has been handed out, from 0.
type Attempt int

// PolicyVersion counts optimizer steps: version v is the weights after step v,
// version 0 what training starts from. NoVersion marks "no model token".
type PolicyVersion int64

// NoVersion is the version of a row without a sampled token.
const NoVersion PolicyVersion = -1

// Step is one optimizer step and its batch, from 1.
type Step int64

// Kind says what a task is for.
type Kind string

// The kinds of tasks and trajectories.
const (
	Train Kind = "train" // grouped and trained on
	Eval  Kind = "eval"  // measured, never trained on
)

var (
	runPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
)

// Validate reports whether the run's name is usable in stream and subject names.
func (r Run) Validate() error {
	if !runPattern.MatchString(string(r)) {
		return fmt.Errorf("run name %q: want 1 to 40 of a-z, 0-9 and -, starting with a letter or digit", string(r))
	}
	return nil
}

// ValidToken reports whether s may stand as one token of a subject and as one
// field of an index entry: producers, engines, groups and environments.
func ValidToken(s string) bool { return validToken(s) }

// Valid reports whether k is a known kind.
func (k Kind) Valid() bool { return k == Train || k == Eval }

// TrainGroup is the id of the n-th training group the grouper issued, from 0.
func TrainGroup(ordinal uint64) GroupID { return GroupID("t" + strconv.FormatUint(ordinal, 10)) }

// EvalGroup is the id of the i-th held-out task of the evaluation at a step.
func EvalGroup(step Step, i int) GroupID {
	return GroupID("e" + strconv.FormatInt(int64(step), 10) + "-" + strconv.Itoa(i))
}

// Stream identifies one of a run's six streams.
type Stream string

// The streams of a run.
const (
	Tasks      Stream = "TASKS"      // leases: one message per group slot
	Rollouts   Stream = "ROLLOUTS"   // bundles of finished trajectories
	Ledger     Stream = "LEDGER"     // the grouper's decisions
	Weights    Stream = "WEIGHTS"    // the trainer's events and the engines' acks
	Telemetry  Stream = "TELEMETRY"  // gauges and spans
	DeadLetter Stream = "DEADLETTER" // what could not be used, and why
)

// Streams lists every stream of a run, in the order they are created.
func Streams() []Stream {
	return []Stream{Tasks, Rollouts, Ledger, Weights, Telemetry, DeadLetter}
}

// StreamName is the JetStream name of one of the run's streams.
func (r Run) StreamName(s Stream) string { return "hr_" + string(r) + "_" + string(s) }

// Filter is the wildcard subject that a stream of the run captures.
func (r Run) Filter(s Stream) string {
	prefix := "hr." + string(r) + "." + strings.ToLower(string(s))
	if s == Ledger {
		return prefix // one exact subject: compare-and-set guards it
	}
	return prefix + ".>"
}

// TaskSubject is the subject of one lease. It is unique per attempt, so that a
// stream limited to one message a subject makes issuing it idempotent.
func (r Run) TaskSubject(k Kind, g GroupID, s Slot, a Attempt) string {
	return fmt.Sprintf("hr.%s.tasks.%s.%s.%d.%d", r, k, g, s, a)
}

// RolloutSubject is where one producer publishes.
func (r Run) RolloutSubject(producer string) string {
	return "hr." + string(r) + ".rollouts." + producer
}

// LedgerSubject is the ledger's single head subject.
func (r Run) LedgerSubject() string { return r.Filter(Ledger) }

// WeightsEvent names a subject of the WEIGHTS stream.
type WeightsEvent string

// The trainer's events.
const (
	EventVersion    WeightsEvent = "version"    // weights of a version are in the shared store
	EventCommit     WeightsEvent = "commit"     // a step was applied
	EventCheckpoint WeightsEvent = "checkpoint" // a checkpoint covers a step
	EventResumed    WeightsEvent = "resumed"    // a trainer started, at this step
)

// WeightsSubject is the subject of a trainer's event.
func (r Run) WeightsSubject(e WeightsEvent) string {
	return "hr." + string(r) + ".weights." + string(e)
}

// AckSubject is where one engine reports the versions it serves.
func (r Run) AckSubject(engine string) string { return "hr." + string(r) + ".weights.ack." + engine }

// TelemetrySubject is where one instance of a role reports.
func (r Run) TelemetrySubject(role, instance string) string {
	return "hr." + string(r) + ".telemetry." + role + "." + instance
}

// DeadLetterSubject is where a stage puts what it cannot use.
func (r Run) DeadLetterSubject(stage string) string {
	return "hr." + string(r) + ".deadletter." + stage
}

// RunsBucket is the key-value bucket with one record per run.
const RunsBucket = "hr_runs"

// EnginesBucket is the run's key-value bucket with one entry per live engine.
func (r Run) EnginesBucket() string { return "hr_" + string(r) + "_engines" }

// KeysBucket is the run's key-value bucket of secrets: the grouper and the
// bridge read it, nobody else.
func (r Run) KeysBucket() string { return "hr_" + string(r) + "_keys" }

// LeaseKeyName is the key, in [Run.KeysBucket], of the secret that lease tokens
// are made with.
const LeaseKeyName = "leases"

// BucketStream is the stream behind a key-value bucket.
func BucketStream(bucket string) string { return "KV_" + bucket }

// BucketSubject is the subject of one key of a bucket; ">" stands for all.
func BucketSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// TaskConsumer is the durable work-queue consumer that all producers share.
const TaskConsumer = "producers"

// InspectedSubject carries, outside any stream, how far the inspector has
// checked ROLLOUTS: the last sequence, decimal. It is a hint that is repeated
// about four times a second; rejections themselves are in DEADLETTER.
func (r Run) InspectedSubject() string { return "hr." + string(r) + ".live.inspected" }

// InspectStage is the stage name under which the inspector dead-letters.
const InspectStage = "inspect"
