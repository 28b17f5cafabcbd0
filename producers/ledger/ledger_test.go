package ledger_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/producers/ledger"
	"github.com/headrace/headrace/subjects"
)

const vocab = 50

func ids(min, max int) *rapid.Generator[[]int32] {
	return rapid.SliceOfN(rapid.Int32Range(0, vocab-1), min, max)
}

// versions draws spans that cover n tokens.
func versions(t *rapid.T, n int) []subjects.VersionSpan {
	var spans []subjects.VersionSpan
	for at := 0; at < n; {
		end := rapid.IntRange(at+1, n).Draw(t, "end")
		spans = append(spans, subjects.VersionSpan{Start: int32(at), End: int32(end),
			Version: subjects.PolicyVersion(rapid.IntRange(0, 3).Draw(t, "version"))})
		at = end
	}
	return spans
}

// call is what one model call saw and answered.
type call struct {
	segment    int
	prompt     []int32
	completion []int32
	logprobs   []float32
}

// TestLedger_KeepsEveryCall drives a ledger by random appends, rewrites and
// completions and finds every call again in the segments.
func TestLedger_KeepsEveryCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New(vocab)
		var calls []call
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			history := slices.Clone(l.Tokens())
			var span subjects.Span
			var err error
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				added := ids(1, 5).Draw(t, "added")
				span, err = l.Append(added)
				history = append(history, added...)
			case 1: // a whole prompt that continues the history
				history = append(history, ids(1, 5).Draw(t, "more")...)
				span, err = l.Prompt(history)
			default: // a whole prompt that does not have to
				keep := rapid.IntRange(0, len(history)).Draw(t, "keep")
				history = append(history[:keep:keep], ids(1, 5).Draw(t, "new")...)
				span, err = l.Prompt(history)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(l.Tokens(), history) || int(span.End) != len(history) || span.Start > span.End {
				t.Fatalf("prompt is %v, span %v, want %v", l.Tokens(), span, history)
			}
			c := call{segment: l.Index(), prompt: history, completion: ids(1, 6).Draw(t, "completion")}
			for range c.completion {
				c.logprobs = append(c.logprobs, -float32(rapid.IntRange(0, 9).Draw(t, "logprob")))
			}
			if _, err := l.Complete(c.completion, c.logprobs, versions(t, len(c.completion))); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, c)
		}
		checkCalls(t, l, calls)
	})
}

func checkCalls(t *rapid.T, l *ledger.Ledger, calls []call) {
	segments := l.Segments()
	if len(segments) != l.Forks()+1 {
		t.Fatalf("%d segments after %d forks", len(segments), l.Forks())
	}
	sampled := make([]int, len(segments))
	for _, c := range calls {
		s := segments[c.segment]
		whole := slices.Concat(c.prompt, c.completion)
		if !slices.Equal(s.Tokens[:len(whole)], whole) {
			t.Fatalf("call is not a prefix of segment %d: %v, want %v", c.segment, s.Tokens, whole)
		}
		at := sampled[c.segment]
		if !slices.Equal(s.Logprobs[at:at+len(c.logprobs)], c.logprobs) {
			t.Fatalf("logprobs of segment %d: %v, want %v at %d", c.segment, s.Logprobs, c.logprobs, at)
		}
		for i := range c.completion {
			if !covered(s.LossMask, len(c.prompt)+i) {
				t.Fatalf("sampled token %d is not in the loss mask %v", len(c.prompt)+i, s.LossMask)
			}
		}
		sampled[c.segment] += len(c.completion)
	}
	checkSegments(t, segments, sampled)
}

// checkSegments wants no token in the loss but the sampled ones, forks that
// share what they say, and values that the wire format takes.
func checkSegments(t *rapid.T, segments []subjects.Segment, sampled []int) {
	for i, s := range segments {
		masked := 0
		for _, m := range s.LossMask {
			masked += int(m.End - m.Start)
		}
		if masked != sampled[i] || len(s.Logprobs) != sampled[i] {
			t.Fatalf("segment %d: %d in the mask, %d logprobs, %d sampled", i, masked, len(s.Logprobs), sampled[i])
		}
		if s.Parent != i-1 {
			t.Fatalf("segment %d has parent %d", i, s.Parent)
		}
		if i == 0 {
			continue
		}
		parent := segments[s.Parent].Tokens
		if !slices.Equal(parent[:s.Shared], s.Tokens[:s.Shared]) {
			t.Fatalf("segment %d shares %d tokens that differ", i, s.Shared)
		}
		if len(s.LossMask) > 0 && int(s.LossMask[0].Start) < s.Shared {
			t.Fatalf("segment %d trains on its parent's tokens", i)
		}
	}
	trajectory := subjects.Trajectory{Kind: subjects.Train, Group: "g", Environment: "e", Status: subjects.Succeeded, Segments: segments}
	if err := trajectory.Check(vocab); err != nil {
		t.Fatal(err)
	}
}

func covered(mask []subjects.Span, at int) bool {
	return slices.ContainsFunc(mask, func(m subjects.Span) bool { return int(m.Start) <= at && at < int(m.End) })
}

func TestLedger_RefusesWhatNoTrainerCouldUse(t *testing.T) {
	one := []subjects.VersionSpan{{End: 1, Version: 3}}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		ids      []int32
		logprobs []float32
		versions []subjects.VersionSpan
	}{
		"nothing sampled":     {},
		"a logprob missing":   {[]int32{1, 2}, []float32{-1}, []subjects.VersionSpan{{End: 2}}},
		"a logprob too many":  {[]int32{1}, []float32{-1, -1}, one},
		"NaN":                 {[]int32{1}, []float32{nan}, one},
		"minus infinity":      {[]int32{1}, []float32{float32(math.Inf(-1))}, one},
		"a positive logprob":  {[]int32{1}, []float32{0.5}, one},
		"an id too high":      {[]int32{vocab}, []float32{-1}, one},
		"a negative id":       {[]int32{-1}, []float32{-1}, one},
		"no version":          {[]int32{1}, []float32{-1}, nil},
		"a version gap":       {[]int32{1, 2}, []float32{-1, -1}, []subjects.VersionSpan{{Start: 1, End: 2}}},
		"versions too long":   {[]int32{1}, []float32{-1}, []subjects.VersionSpan{{End: 2}}},
		"versions overlap":    {[]int32{1, 2}, []float32{-1, -1}, []subjects.VersionSpan{{End: 2}, {Start: 1, End: 2}}},
		"an unknown version":  {[]int32{1}, []float32{-1}, []subjects.VersionSpan{{End: 1, Version: -1}}},
		"an empty span first": {[]int32{1}, []float32{-1}, []subjects.VersionSpan{{}, {End: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger.New(vocab)
			if _, err := l.Append([]int32{7}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Complete(c.ids, c.logprobs, c.versions); !errors.Is(err, ledger.ErrRefused) {
				t.Errorf("error %v, want ErrRefused", err)
			}
			if l.Len() != 1 || len(l.Segments()[0].Logprobs) != 0 {
				t.Error("a refused completion left something behind")
			}
		})
	}
}

func TestLedger_CompletionNeedsAPrompt(t *testing.T) {
	_, err := ledger.New(vocab).Complete([]int32{1}, []float32{-1}, []subjects.VersionSpan{{End: 1}})
	if !errors.Is(err, ledger.ErrRefused) {
		t.Errorf("error %v, want ErrRefused", err)
	}
}

func TestLedger_ForkIsCountedAndNamesItsParent(t *testing.T) {
	l := ledger.New(vocab)
	must(t)(l.Prompt([]int32{1, 2, 3}))
	must(t)(l.Complete([]int32{4}, []float32{-1}, []subjects.VersionSpan{{End: 1, Version: 2}}))
	span := must(t)(l.Prompt([]int32{1, 2, 9, 9}))
	s := l.Segments()[1]
	if l.Forks() != 1 || s.Parent != 0 || s.Shared != 2 || span != (subjects.Span{Start: 2, End: 4}) {
		t.Errorf("forks %d, parent %d, shared %d, span %v", l.Forks(), s.Parent, s.Shared, span)
	}
}

func must(t *testing.T) func(subjects.Span, error) subjects.Span {
	return func(s subjects.Span, err error) subjects.Span {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
