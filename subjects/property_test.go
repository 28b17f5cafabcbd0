package subjects

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

const vocab = 1000

// drawSpans draws ascending disjoint spans within [0, n).
func drawSpans(t *rapid.T, n int, label string) []Span {
	var spans []Span
	for at := 0; at < n; {
		start := at + rapid.IntRange(0, 5).Draw(t, label+" gap")
		end := start + rapid.IntRange(1, 6).Draw(t, label+" length")
		if end > n {
			break
		}
		spans = append(spans, Span{int32(start), int32(end)})
		at = end
	}
	return spans
}

func drawSegment(t *rapid.T, index int, shared int) Segment {
	n := shared + rapid.IntRange(0, 60).Draw(t, "tokens")
	s := Segment{Parent: index - 1, Shared: shared, LossMask: nil}
	if n > 0 {
		s.Tokens = rapid.SliceOfN(rapid.Int32Range(0, vocab-1), n, n).Draw(t, "ids")
	}
	for _, x := range drawSpans(t, n, "sampled") {
		s.Versions = append(s.Versions, VersionSpan{x.Start, x.End, PolicyVersion(rapid.IntRange(0, math.MaxInt32).Draw(t, "version"))})
		for range x.End - x.Start {
			s.Logprobs = append(s.Logprobs, rapid.Float32Range(-1e30, 0).Draw(t, "logprob"))
		}
		if rapid.Bool().Draw(t, "trained") {
			s.LossMask = append(s.LossMask, Span{x.Start + (x.End-x.Start)/2, x.End})
		}
	}
	return s
}

func drawToken(t *rapid.T, label string) string {
	return rapid.StringMatching(`[A-Za-z0-9_-]{1,12}`).Draw(t, label)
}

// drawTrajectory draws any trajectory that passes Check.
func drawTrajectory(t *rapid.T) *Trajectory {
	word := rapid.String()
	tr := &Trajectory{
		Kind: Train, Group: GroupID(drawToken(t, "group")), Environment: drawToken(t, "environment"),
		Slot: Slot(rapid.IntRange(0, maxSlot).Draw(t, "slot")), Attempt: Attempt(rapid.IntRange(0, maxSlot).Draw(t, "attempt")),
		Seed: rapid.Int64().Draw(t, "seed"), Producer: word.Draw(t, "producer"), Engine: word.Draw(t, "engine"),
		Sampling: Sampling{Temperature: rapid.Float64Range(0, 2).Draw(t, "temperature"), TopK: rapid.IntRange(-1, 99).Draw(t, "k"), Seed: rapid.Uint64().Draw(t, "s")},
		Status:   rapid.SampledFrom([]Status{Succeeded, Truncated, Overlong, Failed, Aborted}).Draw(t, "status"),
		Reason:   word.Draw(t, "reason"), Reward: rapid.Float64Range(-1e30, 1e30).Draw(t, "reward"),
		Started: rapid.Int64().Draw(t, "started"), Finished: rapid.Int64().Draw(t, "finished"),
	}
	if rapid.Bool().Draw(t, "eval") {
		tr.Kind, tr.Round = Eval, Step(rapid.Int64Range(0, 1<<40).Draw(t, "round"))
	}
	shared := 0
	for i := range rapid.IntRange(1, 4).Draw(t, "segments") {
		s := drawSegment(t, i, shared)
		tr.Segments = append(tr.Segments, s)
		shared = len(s.Tokens) / 2
	}
	for range rapid.IntRange(0, 4).Draw(t, "turns") {
		i := rapid.IntRange(0, len(tr.Segments)-1).Draw(t, "in")
		n := int32(len(tr.Segments[i].Tokens))
		tr.Turns = append(tr.Turns, Turn{Segment: i, Prompt: Span{0, n / 2}, Completion: Span{n / 2, n}, Queued: rapid.Int64().Draw(t, "q"),
			Cached: rapid.Int32Range(0, 100).Draw(t, "cached"), Finish: word.Draw(t, "finish"), Reward: rapid.Float64Range(-9, 9).Draw(t, "r")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		tr.Messages = append(tr.Messages, Message{Role: word.Draw(t, "role"), Content: word.Draw(t, "content"), Name: word.Draw(t, "name")})
	}
	if m := rapid.MapOfN(word, rapid.Float64Range(-9, 9), 0, 5).Draw(t, "components"); len(m) > 0 {
		tr.Components = m
	}
	return tr
}

func TestBody_DecodesToWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawTrajectory(t)
		if err := want.Check(vocab); err != nil {
			t.Fatal(err)
		}
		body := mustEncode(t, want)
		if hint := want.SizeHint(); hint < len(body) {
			t.Fatalf("a body of %d bytes was expected to take at most %d", len(body), hint)
		}
		got, err := DecodeTrajectory(body)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if again := mustEncode(t, got); !bytes.Equal(again, body) {
			t.Fatal("equal trajectories, different bytes")
		}
	})
}

func TestBody_ViewAgreesWithTheTrajectory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrajectory(t)
		v, err := ViewBody(mustEncode(t, tr))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Check(vocab); err != nil {
			t.Fatal(err)
		}
		if got, want := v.Index(), tr.Index(); got != want {
			t.Fatalf("index of the view %v, of the trajectory %v", got.String(), want.String())
		}
	})
}

func TestBody_AFlippedBitIsRefusedOrChangesTheChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := mustEncode(t, drawTrajectory(t))
		sum := Checksum(body)
		bit := rapid.IntRange(0, 8*len(body)-1).Draw(t, "bit")
		body[bit/8] ^= 1 << (bit % 8)
		if Checksum(body) == sum {
			t.Fatal("the checksum is the same")
		}
		if v, err := ViewBody(body); err == nil { // must not panic, whatever it says
			_ = v.Check(vocab)
			_ = v.Index()
		} else if !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v is not ErrMalformed", err)
		}
	})
}

func TestIndexEntry_ParsesToWhatWasPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawTrajectory(t).Index()
		e.Offset, e.Length = rapid.IntRange(0, math.MaxInt32).Draw(t, "offset"), rapid.IntRange(0, math.MaxInt32).Draw(t, "length")
		e.Checksum = rapid.Uint32().Draw(t, "checksum")
		got, err := ParseIndex(e.String())
		if err != nil {
			t.Fatal(err)
		}
		if got != e {
			t.Fatalf("got %v, want %v", got.String(), e.String())
		}
	})
}

// naive is the segment check written token by token.
func naive(s *Segment, index int) bool {
	n := len(s.Tokens)
	sampled, trained := make([]int, n), make([]int, n)
	paint := func(spans []Span, onto []int) bool {
		last := int32(0)
		for _, x := range spans {
			if x.Start < last || x.Start >= x.End || int(x.End) > n {
				return false
			}
			for i := x.Start; i < x.End; i++ {
				onto[i]++
			}
			last = x.End
		}
		return true
	}
	var versions []Span
	for _, v := range s.Versions {
		versions = append(versions, Span{v.Start, v.End})
		if v.Version < 0 {
			return false
		}
	}
	ok := paint(versions, sampled) && paint(s.LossMask, trained) && s.Parent >= -1 && s.Parent < index && s.Shared >= 0 && s.Shared <= n
	total := 0
	for i, id := range s.Tokens {
		ok = ok && id >= 0 && id < vocab && trained[i] <= sampled[i]
		total += sampled[i]
	}
	for _, lp := range s.Logprobs {
		ok = ok && lp <= 1e-3 && lp >= -math.MaxFloat32
	}
	return ok && total == len(s.Logprobs)
}

func TestSegment_CheckAgreesWithTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSegment(t, 0, 0)
		edge := rapid.Int32Range(-1, int32(len(s.Tokens)+1))
		for range rapid.IntRange(0, 2).Draw(t, "damages") {
			switch rapid.IntRange(0, 6).Draw(t, "damage") {
			case 0:
				s.LossMask = append(s.LossMask, Span{edge.Draw(t, "start"), edge.Draw(t, "end")})
			case 1:
				s.Versions = append(s.Versions, VersionSpan{edge.Draw(t, "start"), edge.Draw(t, "end"), 1})
			case 2:
				if n := len(s.LossMask); n > 0 {
					s.LossMask[rapid.IntRange(0, n-1).Draw(t, "at")] = Span{edge.Draw(t, "start"), edge.Draw(t, "end")}
				}
			case 3:
				if n := len(s.Versions); n > 0 {
					s.Versions[rapid.IntRange(0, n-1).Draw(t, "at")].End += rapid.Int32Range(-2, 2).Draw(t, "by")
				}
			case 4:
				s.Logprobs = append(s.Logprobs, rapid.SampledFrom([]float32{-1, float32(math.NaN()), 1}).Draw(t, "logprob"))
			case 5:
				s.Tokens = append(s.Tokens, rapid.SampledFrom([]int32{5, -1, vocab}).Draw(t, "id"))
			case 6:
				s.Parent, s.Shared = rapid.IntRange(-2, 1).Draw(t, "parent"), rapid.IntRange(-1, 3).Draw(t, "shared")
			}
		}
		v := (&Trajectory{Segments: []Segment{s}}).view().Segments[0]
		err := v.check(vocab, 0)
		if naive(&s, 0) != (err == nil) {
			t.Fatalf("check says %v of %+v", err, s)
		}
	})
}

func TestArray_SwappingWordsTwiceChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOf(rapid.Int32()).Draw(t, "s")
		p := appendArray(nil, s)
		for i, x := range s {
			if i32(p, i) != x {
				t.Fatalf("element %d is %d, want %d", i, i32(p, i), x)
			}
		}
		swapped := bytes.Clone(p)
		swapWords(swapped)
		for i := 0; i < len(p); i += 4 {
			if p[i] != swapped[i+3] || p[i+1] != swapped[i+2] {
				t.Fatalf("word at %d is %x, swapped %x", i, p[i:i+4], swapped[i:i+4])
			}
		}
		if got := readArray[int32](p); len(s) > 0 && !reflect.DeepEqual(got, s) {
			t.Fatalf("got %v, want %v", got, s)
		}
	})
}

// TestMessages_AgreeWithTheMsgpackLibrary holds both directions against an
// implementation that is not ours.
func TestMessages_AgreeWithTheMsgpackLibrary(t *testing.T) {
	for name, want := range messages() {
		t.Run(name, func(t *testing.T) {
			ours, err := EncodeMessage(want)
			if err != nil {
				t.Fatal(err)
			}
			got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
			if err := msgpack.Unmarshal(ours, got); err != nil {
				t.Fatal(err)
			}
			if name != "entry" && !reflect.DeepEqual(got, want) { // an absent list is nil there, empty here
				t.Errorf("the library read %+v, want %+v", got, want)
			}
			theirs, err := msgpack.Marshal(want) // wide integers
			if err != nil {
				t.Fatal(err)
			}
			if name == "entry" {
				return // the library writes nil for an absent list
			}
			if err := DecodeMessage(theirs, got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, want %+v", got, want)
			}
		})
	}
}

func TestMessages_EqualMessagesGiveEqualBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &CommitEvent{V: 1, Metrics: rapid.MapOf(rapid.String(), rapid.Float64()).Draw(t, "metrics"), Step: Step(rapid.Int64().Draw(t, "step"))}
		b, err := EncodeMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		var got CommitEvent
		if err := DecodeMessage(b, &got); err != nil {
			t.Fatal(err)
		}
		again, err := EncodeMessage(got)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			t.Fatal("different bytes")
		}
	})
}

func mustEncode(t *rapid.T, tr *Trajectory) []byte {
	var buf bytes.Buffer
	if err := EncodeTrajectory(&buf, tr); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
