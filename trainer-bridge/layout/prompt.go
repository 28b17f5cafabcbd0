package layout

// promptCells are the arrays of [PromptCompletion] beyond the completion's.
type promptCells struct {
	cells
	ids, mask          []byte
	advantages, oldest []byte
}

func (w *Writer) promptCompletion(slot []byte, rows []Row, part Part) (Filled, error) {
	longest := 0
	for i := range rows {
		prompt := firstSampled(rows[i].Segment)
		completion := rows[i].Segment.Len() - prompt
		longest = max(longest, completion)
		if err := w.checkLength(i, "prompt", prompt, w.cfg.PromptTokens); err != nil {
			return Filled{}, err
		}
		if err := w.checkLength(i, "completion", completion, w.cfg.longest()); err != nil {
			return Filled{}, err
		}
	}
	length := w.cfg.bucket(longest)
	s, first, end, err := w.open(slot, len(rows), length, part)
	if err != nil {
		return Filled{}, err
	}
	m := s.cut(slot)
	c := promptCells{
		cells: cells{tokens: m["completion_ids"], logprobs: m["old_logprobs"], mask: m["completion_mask"], versions: m["versions"]},
		ids:   m["prompt_ids"], mask: m["prompt_mask"], advantages: m["advantages"], oldest: m["policy_version"],
	}
	out := Filled{Arrays: s, Bytes: s.bytes(), First: first}
	for i := first; i < min(end, len(rows)); i++ {
		w.placePrompt(&c, &rows[i], i-first, length, &out)
	}
	w.blankPrompts(&c, out.Rows, end-first, length)
	return out, nil
}

// placePrompt writes row i: the prompt against the right edge of its cells, its
// last tokens where it is too long, and the completion against the left.
func (w *Writer) placePrompt(c *promptCells, r *Row, i, length int, out *Filled) {
	all, prompt := r.Segment.Len(), firstSampled(r.Segment)
	kept, _, headless := w.fit(prompt, w.cfg.PromptTokens)
	body, masked, over := w.fit(all-prompt, length)
	at, edge := i*length, (i+1)*w.cfg.PromptTokens
	start := edge - kept
	repeat(c.ids[4*i*w.cfg.PromptTokens:4*start], w.fixed.pad)
	copy(c.ids[4*start:4*edge], r.Segment.Tokens[4*(prompt-kept):4*prompt])
	clear(c.mask[i*w.cfg.PromptTokens : start])
	copy(c.mask[start:edge], w.fixed.ones)
	c.place(r.Segment, prompt, prompt+body, at, masked || headless || r.Masked, &w.fixed)
	c.blank(at+body, at+length, &w.fixed)
	put32(c.advantages, i, f32(r.Advantage))
	put32(c.oldest, i, uint32(oldest(r.Segment)))
	out.count(kept+body, over || headless)
}

func (w *Writer) blankPrompts(c *promptCells, from, end, length int) {
	p := w.cfg.PromptTokens
	repeat(c.ids[4*from*p:4*end*p], w.fixed.pad)
	clear(c.mask[from*p : end*p])
	c.blank(from*length, end*length, &w.fixed)
	clear(c.advantages[4*from : 4*end])
	repeat(c.oldest[4*from:4*end], w.fixed.none)
}
