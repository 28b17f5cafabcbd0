package tokenizer

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/envs"
)

// Special tokens of [Words]; their ids are 0, 1 and 2.
const (
	Pad     = "<|pad|>"
	IMStart = "<|im_start|>"
	IMEnd   = "<|im_end|>"
)

var specials = []string{Pad, IMStart, IMEnd}

// roleHeads are pieces in every vocabulary, so that a turn's head is two ids.
var roleHeads = []string{
	envs.RoleSystem + "\n", envs.RoleUser + "\n", envs.RoleAssistant + "\n", envs.RoleTool + "\n",
}

// Words is the byte-plus-words tokenizer: a small fixed vocabulary of whole
// phrases, and the 256 bytes for all that they do not cover. It suits small
// models on games with set phrases, where an episode is a hundred tokens.
//
// Ids, in order: the three specials, the four role heads ("user\n", ...), the
// words in the order given, the bytes 0 to 255. Encoding is greedy: at every
// place the longest piece that fits.
type Words struct {
	// pieces are the spellings by id.
	pieces []string
	// byFirst lists by first byte the ids of the pieces longer than a byte,
	// specials left out, longest first.
	byFirst [256][]int32
	// firstByte is the id of byte 0.
	firstByte int32
	id        string
}

var _ Tokenizer = (*Words)(nil)

// NewWords makes the tokenizer of a word list. A word that comes twice counts
// once, and one of a single byte or equal to a role head is there already. A
// word that contains the spelling of a special token is an error, as is an
// empty one.
func NewWords(words ...string) (*Words, error) {
	w := &Words{pieces: slices.Concat(specials, roleHeads)}
	seen := map[string]bool{}
	for _, head := range roleHeads {
		seen[head] = true
	}
	for _, word := range words {
		if word == "" {
			return nil, fmt.Errorf("vocabulary: empty word")
		}
		for _, special := range specials {
			if strings.Contains(word, special) {
				return nil, fmt.Errorf("vocabulary: word %q contains the special token %s", word, special)
			}
		}
		if len(word) > 1 && !seen[word] {
			seen[word] = true
			w.pieces = append(w.pieces, word)
		}
	}
	w.firstByte = int32(len(w.pieces))
	for b := range 256 {
		w.pieces = append(w.pieces, string([]byte{byte(b)}))
	}
	w.index()
	return w, nil
}

// index fills byFirst and id from the pieces.
func (w *Words) index() {
	hash := sha256.New()
	for id, piece := range w.pieces {
		// The length first: ["ab","c"] and ["a","bc"] must differ.
		hash.Write(binary.AppendUvarint(nil, uint64(len(piece))))
		hash.Write([]byte(piece))
		if id >= len(specials) && int32(id) < w.firstByte {
			first := piece[0]
			w.byFirst[first] = append(w.byFirst[first], int32(id))
		}
	}
	for _, ids := range w.byFirst {
		slices.SortStableFunc(ids, func(a, b int32) int {
			return cmp.Compare(len(w.pieces[b]), len(w.pieces[a]))
		})
	}
	w.id = "words-" + hex.EncodeToString(hash.Sum(nil)[:8])
}

// Encode returns the ids of content.
func (w *Words) Encode(text string) []int32 {
	var short [256]int32
	ids := w.AppendEncode(short[:0], text)
	return append(make([]int32, 0, len(ids)), ids...)
}

// AppendEncode appends the ids of content to dst.
func (w *Words) AppendEncode(dst []int32, text string) []int32 {
	for len(text) > 0 {
		id := w.longest(text)
		dst = append(dst, id)
		text = text[len(w.pieces[id]):]
	}
	return dst
}

// longest is the id of the longest piece that text, which is not empty, begins
// with.
func (w *Words) longest(text string) int32 {
	for _, id := range w.byFirst[text[0]] {
		if strings.HasPrefix(text, w.pieces[id]) {
			return id
		}
	}
	return w.firstByte + int32(text[0])
}

// Decode returns the text of ids.
func (w *Words) Decode(ids []int32) string {
	size := 0
	for _, id := range ids {
		size += len(w.piece(id))
	}
	var text strings.Builder
	text.Grow(size)
	for _, id := range ids {
		text.WriteString(w.piece(id))
	}
	return text.String()
}

// piece is the spelling of an id, empty if there is none.
func (w *Words) piece(id int32) string {
	if id < 0 || int(id) >= len(w.pieces) {
		return ""
	}
	return w.pieces[id]
}

// VocabSize is the number of ids.
func (w *Words) VocabSize() int { return len(w.pieces) }

// PadID is the id of Pad: 0.
func (w *Words) PadID() int32 { return 0 }

// EOSID is the id of IMEnd: 2.
func (w *Words) EOSID() int32 { return 2 }

// Special returns the id of Pad, IMStart or IMEnd.
func (w *Words) Special(token string) (id int32, ok bool) {
	i := slices.Index(specials, token)
	return int32(max(i, 0)), i >= 0
}

// ID is "words-" and 16 hex digits of the SHA-256 of the pieces.
func (w *Words) ID() string { return w.id }
