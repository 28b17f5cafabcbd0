package layout

import "github.com/headrace/headrace/subjects"

// rowCells are the arrays of [Padded] with one element a row.
type rowCells struct{ advantages, rewards, lengths, groups, versions []byte }

func (w *Writer) padded(slot []byte, rows []Row, part Part) (Filled, error) {
	longest := 0
	for i := range rows {
		longest = max(longest, rows[i].Tokens)
		if err := w.checkLength(i, "segment", rows[i].Tokens, w.cfg.longest()); err != nil {
			return Filled{}, err
		}
	}
	length := w.cfg.bucket(longest)
	s, first, end, err := w.open(slot, len(rows), length, part)
	if err != nil {
		return Filled{}, err
	}
	m := s.cut(slot)
	tokens := cells{tokens: m["tokens"], logprobs: m["logprobs"], mask: m["loss_mask"], versions: m["versions"]}
	each := rowCells{m["advantages"], m["rewards"], m["lengths"], m["group_index"], m["policy_version"]}
	out := Filled{Arrays: s, Bytes: s.bytes(), First: first}
	for i := first; i < min(end, len(rows)); i++ {
		kept, masked, over := w.fit(rows[i].Tokens, length)
		at := (i - first) * length
		tokens.place(rows[i].Segment, 0, kept, at, masked || rows[i].Masked, &w.fixed)
		tokens.blank(at+kept, at+length, &w.fixed)
		each.place(&rows[i], i-first, kept)
		out.count(kept, over)
	}
	tokens.blank(out.Rows*length, (end-first)*length, &w.fixed)
	each.blank(out.Rows, end-first)
	return out, nil
}

func (f *Filled) count(tokens int, over bool) {
	f.Rows++
	f.Tokens += tokens
	if over {
		f.Overflowed++
	}
}

// checkLength refuses what is longer than the limit, if the policy says so.
func (w *Writer) checkLength(row int, what string, n, limit int) error {
	if n <= limit || w.cfg.Overflow != OverflowError {
		return nil
	}
	field := "buckets"
	switch {
	case w.cfg.Layout == Packed:
		field = "row_tokens"
	case what == "prompt":
		field = "prompt_tokens"
	}
	return &LengthError{Row: row, Part: what, Tokens: n, Limit: limit, Field: field}
}

func (c *rowCells) place(r *Row, i, tokens int) {
	put32(c.advantages, i, f32(r.Advantage))
	put32(c.rewards, i, f32(r.Reward))
	put32(c.lengths, i, uint32(tokens))
	put32(c.groups, i, uint32(r.Group))
	put32(c.versions, i, uint32(oldest(r.Segment)))
}

// blank writes rows [from, end) that hold nothing: length 0, group and version -1.
func (c *rowCells) blank(from, end int) {
	none := uint32(1<<32 + int64(subjects.NoVersion))
	clear(c.advantages[4*from : 4*end])
	clear(c.rewards[4*from : 4*end])
	clear(c.lengths[4*from : 4*end])
	fill32(c.groups[4*from:4*end], none)
	fill32(c.versions[4*from:4*end], none)
}
