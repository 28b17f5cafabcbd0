package subjects

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// Inspect reads a body as the inspector does, whoever asks: its structure, every
// value ([BodyView.Check]) and its agreement with the index entry that grouping
// trusted. vocab 0 leaves token ids unchecked. The view aliases body.
func Inspect(body []byte, e *IndexEntry, vocab int) (BodyView, error) {
	v, err := ViewBody(body)
	if err == nil {
		err = v.Check(vocab)
	}
	if err == nil {
		err = e.agrees(&v)
	}
	return v, err
}

// agrees wants the entry to say what the body says.
func (e *IndexEntry) agrees(v *BodyView) error {
	claimed, found := *e, v.Index()
	claimed.Offset, claimed.Length, claimed.Checksum, claimed.Token = 0, 0, 0, "" // the body's place and its lease
	if claimed != found {
		return fmt.Errorf("%w: its index entry says %q, its body %q", ErrMalformed, claimed.String(), found.String())
	}
	return nil
}

// TaskHash is a digest of what was played: environment, seed and task. The
// trajectories of a group have the same.
func (v *BodyView) TaskHash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.Environment))
	_, _ = h.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(v.seed)))
	_, _ = h.Write(v.task)
	return h.Sum64()
}
