package ui

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/ui/index"
)

// searchBudget is about how long a search for words may read bodies.
const searchBudget = 150 * time.Millisecond

func wrong(name, text, want string) error {
	return badRequest(fmt.Errorf("%s %q: want %s", name, text, want))
}

// groups answers with a page of the groups that the query chooses.
func (s *Server) groups(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r.URL.Query())
	if err != nil {
		return err
	}
	v, release, err := s.listing(r)
	if err != nil {
		return err
	}
	defer release()
	leave := v.index.Ahead()
	await(r.Context(), v.begun, beginPatience)
	if leave(); !v.index.Partial() {
		await(r.Context(), v.listed, listPatience)
	}
	if q.Text != "" {
		v.want()
	}
	defer v.index.Ahead()()
	page, err := v.index.List(r.Context(), q, v.fetch, searchBudget)
	if err != nil {
		return err
	}
	return answer(w, r, page)
}

// query reads the filters.
func query(v url.Values) (*index.Query, error) {
	q := &index.Query{Kinds: words(v, "kind"), Outcomes: words(v, "outcome"), Environments: words(v, "env"), Statuses: words(v, "status"),
		Text: strings.TrimSpace(v.Get("q")), Sort: v.Get("sort"), Cursor: v.Get("cursor")}
	if len(q.Text) > longestQuery {
		return nil, badRequest(fmt.Errorf("the text to search for is longer than %d bytes", longestQuery))
	}
	for name, r := range map[string]*index.Range{"step": &q.Step, "version": &q.Version, "reward": &q.Reward, "std": &q.Std} {
		var err error
		if *r, err = span(name, v.Get(name)); err != nil {
			return nil, err
		}
	}
	switch text := v.Get("unused"); text {
	case "", "yes":
		q.Unused = text != ""
	default:
		return nil, wrong("unused", text, "yes, or nothing")
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, wrong("limit", text, "a number from 1 on")
		}
		q.Limit = n
	}
	if err := q.Validate(); err != nil {
		return nil, badRequest(err)
	}
	return q, nil
}

const longestQuery = 500

// words are the values of a list, which commas may part.
func words(v url.Values, name string) (list []string) {
	for _, text := range v[name] {
		for w := range strings.SplitSeq(text, ",") {
			if w = strings.TrimSpace(w); w != "" {
				list = append(list, w)
			}
		}
	}
	return list
}

// span reads 3, 3..5, 3.. and ..5.
func span(name, text string) (r index.Range, err error) {
	if text == "" {
		return r, nil
	}
	a, b, two := strings.Cut(text, "..")
	if !two {
		b = a
	}
	r = index.Range{Set: true, Min: math.Inf(-1), Max: math.Inf(1)}
	for _, part := range []struct {
		text string
		to   *float64
	}{{a, &r.Min}, {b, &r.Max}} {
		if part.text == "" && two {
			continue
		}
		if *part.to, err = strconv.ParseFloat(part.text, 64); err != nil || math.IsNaN(*part.to) {
			return r, wrong(name, text, "a number, or two as in 3..5 (either may be left out)")
		}
	}
	return r, nil
}
