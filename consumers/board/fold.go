package board

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/subjects"
)

// Fold folds a message of one of the run's streams in, which the server stored
// at that time. What cannot be decoded is left out of the picture: a board
// decides nothing.
func (b *Board) Fold(stream subjects.Stream, subject string, data []byte, at time.Time) {
	switch stream {
	case subjects.Ledger:
		decode(data, func(e *subjects.Entry) { clock(&e.At, at); b.Entry(e) })
	case subjects.Weights:
		b.weights(subjects.WeightsEvent(rest(subject)), data, at)
	case subjects.Telemetry:
		b.telemetry(subject, data, at)
	}
}

// rest is the subject behind the run's and the stream's name, up to the next point.
func rest(subject string) string {
	parts := strings.SplitN(subject, ".", 5)
	if len(parts) < 4 {
		return ""
	}
	return parts[3]
}

func (b *Board) weights(event subjects.WeightsEvent, data []byte, at time.Time) {
	switch event {
	case subjects.EventCommit:
		decode(data, func(e *subjects.CommitEvent) { clock(&e.At, at); b.Commit(e) })
	case subjects.EventVersion:
		decode(data, b.Version)
	case subjects.EventResumed:
		decode(data, b.ResumedTrainer)
	case subjects.EventCheckpoint:
		decode(data, b.Checkpoint)
	case "ack":
		decode(data, func(e *subjects.AckEvent) { clock(&e.At, at); b.Ack(e) })
	}
}

func (b *Board) telemetry(subject string, data []byte, at time.Time) {
	switch role := rest(subject); {
	case role == subjects.WatchdogRole:
		decode(data, b.Stands)
	case !subjects.IsSpans(subject):
		decode(data, func(g *subjects.Gauges) { b.Report(g, at) })
	case role == trainerRole:
		decode(data, func(s *subjects.SpanBatch) { b.Spans(s, at) })
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
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = strings.Clone(s[:n])
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
