package perfetto

// names gives texts numbers, from 1, and collects those that the reader has not
// been told of.
type names struct {
	field int // of InternedData
	ids   map[string]uint64
	fresh message
}

// id is the text's number.
func (n *names) id(text string) uint64 {
	if id, ok := n.ids[text]; ok {
		return id
	}
	if n.ids == nil {
		n.ids = map[string]uint64{}
	}
	id := uint64(len(n.ids) + 1)
	n.ids[text] = id
	var entry message
	entry.uint(entryID, id)
	entry.text(entryText, text)
	n.fresh.embed(n.field, entry)
	return id
}

func (n *names) clear() {
	clear(n.ids)
	n.fresh = n.fresh[:0]
}
