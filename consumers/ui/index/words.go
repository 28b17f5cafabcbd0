package index

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headrace/headrace/subjects"
)

// A signature has 12 bits for each different word of a text, and a word sets 6:
// of 300 texts without a word one looks as if it had it.
const (
	bitsAWord  = 12
	marks      = 6
	mostWords  = 1 << 13 // different ones of a trajectory that are signed
	mostText   = 1 << 20 // bytes of a trajectory that are read
	longestRun = 64      // bytes of a word that count
)

// eachWord hands the lower-cased words of a text to fn: runs of letters and digits.
func eachWord(text string, fn func([]byte)) {
	var buf [longestRun + utf8.UTFMax]byte
	n := 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		i += size
		switch {
		case r < utf8.RuneSelf && asciiWord[r] != 0:
			if n < longestRun {
				buf[n] = asciiWord[r]
				n++
			}
		case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			if n < longestRun {
				n += utf8.EncodeRune(buf[n:], unicode.ToLower(r))
			}
		case n > 0:
			fn(buf[:n])
			n = 0
		}
	}
	if n > 0 {
		fn(buf[:n])
	}
}

// asciiWord is the lower-cased character, 0 for what is in no word.
var asciiWord = func() (t [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		if unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) {
			t[c] = byte(unicode.ToLower(rune(c)))
		}
	}
	return t
}()

// hash is FNV-1a, mixed.
func hash(word []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range word {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

// texts are the parts of a trajectory that are searched.
func texts(t *subjects.Trajectory, fn func(string)) {
	left := mostText
	part := func(s string) {
		if len(s) > left {
			s = s[:left]
		}
		left -= len(s)
		fn(s)
	}
	for i := range t.Messages {
		part(t.Messages[i].Content)
	}
	part(t.Reason)
	part(string(t.Task))
}

// sign makes the signature of a trajectory; words is scratch.
func sign(t *subjects.Trajectory, words map[uint64]struct{}) []uint64 {
	clear(words)
	texts(t, func(s string) {
		eachWord(s, func(w []byte) {
			if len(words) < mostWords {
				words[hash(w)] = struct{}{}
			}
		})
	})
	out := make([]uint64, max(1, (len(words)*bitsAWord+63)/64))
	for h := range words {
		for k := range uint64(marks) {
			b := mark(h, k, len(out))
			out[b/64] |= 1 << (b % 64)
		}
	}
	return out
}

func mark(h, k uint64, size int) uint64 {
	b, _ := bits.Mul64(h+k*(h>>17|1)*0x9e3779b97f4a7c15, uint64(size*64))
	return b
}

// needle is what is searched for.
type needle struct {
	words  [][]byte // all of them
	hashes []uint64
	phrase string // lower-cased, if the query is in quotes
}

func newNeedle(q string) needle {
	var n needle
	if inner := strings.Trim(q, `"`); len(inner) <= len(q)-2 {
		n.phrase = strings.ToLower(inner)
	}
	eachWord(q, func(w []byte) {
		n.words, n.hashes = append(n.words, append([]byte(nil), w...)), append(n.hashes, hash(w))
	})
	return n
}

// may reports whether a text with that signature may have what is searched for.
func (n *needle) may(signature []uint64) bool {
	for _, h := range n.hashes {
		for k := range uint64(marks) {
			if b := mark(h, k, len(signature)); signature[b/64]&(1<<(b%64)) == 0 {
				return false
			}
		}
	}
	return true
}

// in reports whether a trajectory has it, and gives a piece of the text around it.
func (n *needle) in(t *subjects.Trajectory) (snippet string, ok bool) {
	missing := make(map[string]bool, len(n.words))
	for _, w := range n.words {
		missing[string(w)] = true
	}
	spoken := n.phrase == ""
	texts(t, func(s string) {
		if len(missing) > 0 {
			eachWord(s, func(w []byte) { delete(missing, string(w)) })
		}
		spoken = spoken || strings.Contains(strings.ToLower(s), n.phrase)
		if snippet == "" {
			snippet = n.around(s)
		}
	})
	return snippet, spoken && len(missing) == 0
}

const (
	snippetBefore = 60
	snippetAfter  = 120
)

// around is the text around the first of the words, "" if it is not there.
func (n *needle) around(s string) string {
	low := strings.ToLower(s)
	want := n.phrase
	if want == "" && len(n.words) > 0 {
		want = string(n.words[0])
	}
	at := strings.Index(low, want)
	if at < 0 || len(low) != len(s) && at > len(s) {
		return ""
	}
	from, to := max(0, at-snippetBefore), min(len(s), at+len(want)+snippetAfter)
	text := strings.Join(strings.Fields(strings.ToValidUTF8(s[min(from, to):to], "")), " ")
	if from > 0 {
		text = "…" + text
	}
	if to < len(s) {
		text += "…"
	}
	return text
}
