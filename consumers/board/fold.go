package board

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/subjects"
)

// subjectTable is the run's subjects, spelled once.
type subjectTable struct {
	run                                    subjects.Run
	ledger                                 string
	commit, version, resumed, checkpoint   string
	acks, telemetry, watchdog, trainerRole string
}

func newSubjectTable(run subjects.Run) subjectTable {
	return subjectTable{run: run, ledger: run.LedgerSubject(), commit: run.WeightsSubject(subjects.EventCommit), version: run.WeightsSubject(subjects.EventVersion),
		resumed: run.WeightsSubject(subjects.EventResumed), checkpoint: run.WeightsSubject(subjects.EventCheckpoint), acks: run.AckSubject(""),
		telemetry: strings.TrimSuffix(run.Filter(subjects.Telemetry), ">"), watchdog: run.TelemetrySubject(subjects.WatchdogRole, ""), trainerRole: run.TelemetrySubject("trainer", "")}
}

// Fold folds a message of one of the run's streams in, which the server stored
// at that time. What cannot be decoded is left out of the picture: a board
// decides nothing.
func (b *Board) Fold(stream subjects.Stream, subject string, data []byte, at time.Time) {
	switch stream {
	case subjects.Ledger:
		decode(data, func(e *subjects.Entry) { clock(&e.At, at); b.Entry(e) })
	case subjects.Weights:
		b.weights(subject, data, at)
	case subjects.Telemetry:
		b.telemetry(subject, data, at)
	}
}

func (b *Board) weights(subject string, data []byte, at time.Time) {
	switch t := &b.at; {
	case subject == t.commit:
		decode(data, func(e *subjects.CommitEvent) { clock(&e.At, at); b.Commit(e) })
	case subject == t.version:
		decode(data, b.Version)
	case subject == t.resumed:
		decode(data, b.ResumedTrainer)
	case subject == t.checkpoint:
		decode(data, b.Checkpoint)
	case strings.HasPrefix(subject, t.acks):
		decode(data, func(e *subjects.AckEvent) { clock(&e.At, at); b.Ack(e) })
	}
}

func (b *Board) telemetry(subject string, data []byte, at time.Time) {
	switch t := &b.at; {
	case strings.HasPrefix(subject, t.watchdog):
		decode(data, b.Stands)
	case subjects.IsSpans(subject):
		if strings.HasPrefix(subject, t.trainerRole) {
			decode(data, func(s *subjects.SpanBatch) { b.Spans(s, at) })
		}
	case strings.HasPrefix(subject, t.telemetry):
		decode(data, func(g *subjects.Gauges) { b.Report(g, at) })
	}
}

func decode[T any](data []byte, into func(*T)) {
	var e T
	if subjects.DecodeMessage(data, &e) == nil {
		into(&e)
	}
}

// clock keeps a writer's time from being ahead of the server's by more than
// clocks are: what is shown of the last minute would stand still until then.
func clock(written *int64, stored time.Time) {
	if *written > stored.Add(mostSkew*time.Second).UnixNano() {
		*written = stored.UnixNano()
	}
}

// cutText is at most n bytes of a text, whole characters of it.
func cutText(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}
