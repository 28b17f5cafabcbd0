package ui

import (
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
)

const (
	pageOfLetters = 100
	previewBytes  = 4 << 10
)

// letters answers with a page of the dead letters, the newest first.
func (s *Server) letters(w http.ResponseWriter, r *http.Request) error {
	before, err := whole(r, "cursor", 0)
	if err != nil {
		return err
	}
	v, release, err := s.hold(r.Context(), r)
	if err != nil {
		return err
	}
	defer release()
	q := r.URL.Query()
	found, err := show.FindLetters(r.Context(), v.Conn, v.run, show.LetterFilter{Stage: q.Get("stage"), Producer: q.Get("producer"), Dropped: true})
	if err != nil {
		return err
	}
	requeued, err := bus.Requeued(r.Context(), v.Conn, v.run)
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b show.Filed) int { return int(b.Number) - int(a.Number) })
	out := struct {
		Letters []show.Letter `json:"letters"`
		Next    string        `json:"next"`
		Total   int           `json:"total"`
	}{Letters: []show.Letter{}}
	text := strings.ToLower(q.Get("q"))
	for i := range found {
		f := &found[i]
		if text != "" && !strings.Contains(strings.ToLower(f.Reason+" "+f.ID+" "+f.Producer), text) {
			continue
		}
		if out.Total++; before > 0 && f.Number >= uint64(before) {
			continue
		}
		if len(out.Letters) == pageOfLetters {
			out.Next = strconv.FormatUint(out.Letters[pageOfLetters-1].Number, 10)
			continue
		}
		out.Letters = append(out.Letters, show.Describe(f, requeued))
	}
	return answer(w, r, out)
}

// letter answers with all that can be read of a dead letter.
func (s *Server) letter(w http.ResponseWriter, r *http.Request) error {
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil {
		return wrong("letter", r.PathValue("number"), "a number")
	}
	v, release, err := s.hold(r.Context(), r)
	if err != nil {
		return err
	}
	defer release()
	done, err := s.take(r.Context(), s.heavy)
	if err != nil {
		return err
	}
	defer done()
	d, _, err := show.ReadLetter(r.Context(), v.Conn, v.run, number)
	if err != nil {
		return notFound("%w", err)
	}
	preview := d.Raw[:min(len(d.Raw), previewBytes)]
	if len(d.Raw) > mostMessages {
		d.Body = nil // a page cannot show it
	}
	return answer(w, r, struct {
		*show.LetterDetail
		Hex  string `json:"preview_hex"`
		Text string `json:"preview_text"`
	}{d, hex.EncodeToString(preview), readable(preview)})
}

// readable is a text with a point for what is none.
func readable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '.'
	}, strings.ToValidUTF8(string(b), "."))
}
