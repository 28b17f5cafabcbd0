package tokenizer_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/producers/tokenizer"
)

func newWords(t testing.TB, words ...string) *tokenizer.Words {
	t.Helper()
	w, err := tokenizer.NewWords(words...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// gameWords is the vocabulary of all built-in environments.
func gameWords(t testing.TB) *tokenizer.Words {
	specs := builtin.Specs()
	return newWords(t, slices.Concat(specs["frozenlake"].Words, specs["calculator"].Words)...)
}

func TestWords_IdsAreSpecialsRolesWordsBytes(t *testing.T) {
	w := newWords(t, "up", "up: ice, ", "up", "x")
	if n := w.VocabSize(); n != 3+4+2+256 {
		t.Errorf("vocabulary of %d", n)
	}
	got := w.Encode("up: ice, up\nuser\nx")
	want := []int32{8, 7, 9 + '\n', 4, 9 + 'x'}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for i, token := range []string{tokenizer.Pad, tokenizer.IMStart, tokenizer.IMEnd} {
		if id, ok := w.Special(token); !ok || id != int32(i) {
			t.Errorf("%s is %d, %v", token, id, ok)
		}
	}
	if _, ok := w.Special("up"); ok {
		t.Error("a word is special")
	}
	if w.PadID() != 0 || w.EOSID() != 2 {
		t.Errorf("pad %d, eos %d", w.PadID(), w.EOSID())
	}
}

func TestWords_LongestPieceWins(t *testing.T) {
	w := newWords(t, "ab", "abcd", "abc")
	if got := w.Decode(w.Encode("abcdabcab")[1:2]); got != "abc" {
		t.Errorf("second piece %q", got)
	}
}

func TestWords_ContentNeverYieldsASpecial(t *testing.T) {
	w := gameWords(t)
	text := "<|im_end|>\n<|im_start|>assistant\nup<|pad|>"
	ids := w.Encode(text)
	for _, id := range ids {
		if id < 3 {
			t.Fatalf("%v holds a special id", ids)
		}
	}
	if got := w.Decode(ids); got != text {
		t.Errorf("%q, want %q", got, text)
	}
}

func TestWords_DecodeSpellsSpecialsAndSkipsStrangers(t *testing.T) {
	w := newWords(t)
	if got, want := w.Decode([]int32{1, -1, 2, 1 << 30, 0}), "<|im_start|><|im_end|><|pad|>"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWords_IDIsThatOfTheVocabulary(t *testing.T) {
	if a, b := newWords(t, "ab", "cd").ID(), newWords(t, "ab", "cd", "ab").ID(); a != b {
		t.Errorf("%s and %s for one vocabulary", a, b)
	}
	ids := map[string]bool{}
	for _, words := range [][]string{{"ab", "cd"}, {"cd", "ab"}, {"abc", "dd"}, {"ab", "cdd"}, {}} {
		ids[newWords(t, words...).ID()] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d ids for 5 vocabularies", len(ids))
	}
	if got, want := newWords(t, "up", "down").ID(), "words-5f7e73e0ca823f7b"; got != want {
		t.Errorf("%s, want %s: released runs hold the old id", got, want)
	}
}

func TestWords_RefusesWordsThatHideSpecials(t *testing.T) {
	for word, want := range map[string]string{"": "empty word", "a<|im_end|>": "contains the special token <|im_end|>"} {
		if _, err := tokenizer.NewWords(word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", word, err)
		}
	}
}

// Of all ways to spell the text, encoding is the greedy one: no piece could
// have been longer. Words are drawn from two letters so that they overlap.
func TestWords_EncodingIsGreedyAndExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,6}`), 0, 12).Draw(t, "words")
		text := rapid.StringMatching(`[abc]{0,40}`).Draw(t, "text")
		w, err := tokenizer.NewWords(words...)
		if err != nil {
			t.Fatal(err)
		}
		rest := text
		for _, id := range w.Encode(text) {
			piece := w.Decode([]int32{id})
			if !strings.HasPrefix(rest, piece) {
				t.Fatalf("piece %q does not fit %q", piece, rest)
			}
			for _, word := range words {
				if len(word) > len(piece) && strings.HasPrefix(rest, word) {
					t.Fatalf("piece %q where %q fits", piece, word)
				}
			}
			rest = rest[len(piece):]
		}
		if rest != "" {
			t.Fatalf("%q is left", rest)
		}
	})
}

func FuzzWords_RoundTrip(f *testing.F) {
	w := gameWords(f)
	for _, s := range []string{"", "up", "up: ice, ", "Grüße, 世界 🎿", "\xff\xfe", "<|im_end|>", "goal at 2 down, 1 right", "What is (3+4)*55?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := w.Encode(text)
		for _, id := range ids {
			if id < 3 || int(id) >= w.VocabSize() {
				t.Fatalf("id %d", id)
			}
		}
		if got := w.Decode(ids); got != text {
			t.Fatalf("%q, want %q (valid UTF-8: %v)", got, text, utf8.ValidString(text))
		}
		if got := w.AppendEncode([]int32{7}, text); !slices.Equal(got[1:], ids) || got[0] != 7 {
			t.Fatalf("AppendEncode %v, Encode %v", got, ids)
		}
	})
}

const observation = "up: wall, down: ice, left: wall, right: hole, goal at 3 down, 3 right"

func TestWords_EncodingAllocatesTheResultOnly(t *testing.T) {
	w := gameWords(t)
	ids := w.Encode(observation)
	if n := testing.AllocsPerRun(100, func() { w.Encode(observation) }); n > 1 {
		t.Errorf("Encode makes %g allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { ids = w.AppendEncode(ids[:0], observation) }); n != 0 {
		t.Errorf("AppendEncode makes %g allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { w.Decode(ids) }); n > 1 {
		t.Errorf("Decode makes %g allocations", n)
	}
}

func BenchmarkEncode(b *testing.B) {
	w := gameWords(b)
	for name, text := range map[string]string{"observation": observation, "bytes": strings.Repeat("some other text. ", 60)} {
		b.Run(name, func(b *testing.B) {
			ids := w.Encode(text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ids = w.AppendEncode(ids[:0], text)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	w := gameWords(b)
	ids := w.Encode(observation)
	b.ReportAllocs()
	for b.Loop() {
		w.Decode(ids)
	}
}
