package ui

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
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
	v, release, err := s.listing(r)
	if err != nil {
		return err
	}
	defer release()
	q := r.URL.Query()
	found, err := show.ListLetters(r.Context(), v.Conn, v.run, show.LetterFilter{Stage: q.Get("stage"), Dropped: true})
	if err != nil {
		return err
	}
	requeued, err := bus.Requeued(r.Context(), v.Conn, v.run)
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b show.Filed) int { return cmp.Compare(b.Number, a.Number) })
	found = slices.DeleteFunc(found, func(f show.Filed) bool { return !wanted(v, &f, q) })
	out := lettersAnswer{Letters: []show.Letter{}, Total: len(found)}
	page := slices.DeleteFunc(found, func(f show.Filed) bool { return before > 0 && f.Number >= uint64(before) })
	if len(page) > pageOfLetters {
		page = page[:pageOfLetters]
		out.Next = strconv.FormatUint(page[pageOfLetters-1].Number, 10)
	}
	for i := range page {
		page[i].Producer = v.producer(&page[i])
	}
	if err := show.NameProducers(r.Context(), v.Conn, v.run, page); err != nil {
		return err
	}
	for i := range page {
		out.Letters = append(out.Letters, show.Describe(&page[i], requeued))
	}
	return answer(w, r, out)
}

type lettersAnswer struct {
	Letters []show.Letter `json:"letters"`
	Next    string        `json:"next"`
	Total   int           `json:"total"`
}

// producer is who published what a letter is about, as far as the index knows.
func (v *view) producer(f *show.Filed) string {
	if f.Producer == "" && f.Source == v.run.StreamName(subjects.Rollouts) {
		return v.index.Producer(f.Sequence)
	}
	return f.Producer
}

// wanted reports whether the query chooses a letter.
func wanted(v *view, f *show.Filed, q url.Values) bool {
	producer, text := q.Get("producer"), strings.ToLower(q.Get("q"))
	if producer == "" && text == "" {
		return true
	}
	by := v.producer(f)
	return (producer == "" || producer == by) && (text == "" || strings.Contains(strings.ToLower(f.Reason+" "+f.ID+" "+by), text))
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
