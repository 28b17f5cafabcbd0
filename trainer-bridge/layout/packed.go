package layout

import (
	"cmp"
	"slices"
)

// bin is a packed row while it is filled.
type bin struct{ used, segments int }

// home is where packing puts a segment: the row, its first cell there, its
// segment id and the tokens that are kept of it.
type home struct{ bin, at, id, kept int }

// pack places every row first-fit decreasing by its real length: the tokens
// that are there, whatever the loss mask says of them. Equal lengths keep
// their order. The result is in w.homes and w.bins.
func (w *Writer) pack(rows []Row) error {
	w.order, w.bins = w.order[:0], w.bins[:0]
	w.homes = slices.Grow(w.homes[:0], len(rows))[:len(rows)]
	limit := w.cfg.RowTokens
	for i := range rows {
		if err := w.checkLength(i, "segment", rows[i].Tokens, limit); err != nil {
			return err
		}
		w.order = append(w.order, i)
	}
	slices.SortFunc(w.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rows[b].Tokens, rows[a].Tokens), cmp.Compare(a, b))
	})
	for _, i := range w.order {
		n := min(rows[i].Tokens, limit)
		k := slices.IndexFunc(w.bins, func(b bin) bool { return b.used+n <= limit })
		if k < 0 {
			k = len(w.bins)
			w.bins = append(w.bins, bin{})
		}
		b := &w.bins[k]
		b.segments++
		w.homes[i] = home{bin: k, at: b.used, id: b.segments, kept: n}
		b.used += n
	}
	return nil
}

// packedCells are the arrays of [Packed] beyond the common ones.
type packedCells struct {
	cells
	segments, positions, advantages []byte
}

func (w *Writer) packed(slot []byte, rows []Row, part Part) (Filled, error) {
	if err := w.pack(rows); err != nil {
		return Filled{}, err
	}
	length := w.cfg.RowTokens
	s, first, end, err := w.open(slot, len(w.bins), length, part)
	if err != nil {
		return Filled{}, err
	}
	m := s.cut(slot)
	c := packedCells{
		cells:    cells{tokens: m["tokens"], logprobs: m["logprobs"], mask: m["loss_mask"], versions: m["versions"]},
		segments: m["segment_ids"], positions: m["positions"], advantages: m["advantages"],
	}
	out := Filled{Arrays: s, Bytes: s.bytes(), First: first}
	for i := range rows {
		if h := w.homes[i]; h.bin >= first && h.bin < end {
			_, masked, over := w.fit(rows[i].Tokens, length)
			c.place(&rows[i], h, (h.bin-first)*length+h.at, masked, &w.fixed)
			out.count(h.kept, over)
		}
	}
	for k := first; k < end; k++ {
		used := 0
		if k < len(w.bins) {
			used = w.bins[k].used
		}
		c.blank((k-first)*length+used, (k-first+1)*length, &w.fixed)
	}
	return out, nil
}

func (c *packedCells) place(r *Row, h home, at int, masked bool, k *constants) {
	end := at + h.kept
	c.cells.place(r.Segment, 0, h.kept, at, masked || r.Masked, k)
	fill32(c.segments[4*at:4*end], uint32(h.id))
	copy(c.positions[4*at:4*end], k.iota)
	fill32(c.advantages[4*at:4*end], f32(r.Advantage))
}

func (c *packedCells) blank(at, end int, k *constants) {
	c.cells.blank(at, end, k)
	clear(c.segments[4*at : 4*end])
	clear(c.positions[4*at : 4*end])
	clear(c.advantages[4*at : 4*end])
}
