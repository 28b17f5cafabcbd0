package index

// signatures are the words of trajectories: of each a filter of so many words of
// 64 bits that say where a text is not. The memory for them is one list of chunks,
// the oldest trajectories' of which make room for new ones.
type signatures struct {
	refs blocks[ref] // by row, as far as they go
	all  []*chunk
	open int // the chunk that has room, plus one
	rows int // that have a signature
	most int // bytes
}

// ref says where a row's signature is: in which chunk, plus one, and there.
type ref struct{ chunk, at, size uint16 }

type chunk struct {
	words  []uint64
	rows   []uint32 // that have their signature here
	newest uint32   // the highest of them
}

const chunkWords = 1 << 15

// full reports whether a new signature costs an old one.
func (s *signatures) full() bool {
	return len(s.all) > 0 && (len(s.all)+1)*chunkWords*8 > s.most && (s.open == 0 || len(s.all[s.open-1].words) > chunkWords*3/4)
}

// of is a row's signature; nil when its words are not known.
func (s *signatures) of(i uint32) []uint64 {
	if int(i) >= s.refs.n {
		return nil
	}
	r := s.refs.at(i)
	if r.chunk == 0 {
		return nil
	}
	return s.all[r.chunk-1].words[r.at : int(r.at)+int(r.size)]
}

// put keeps a row's signature.
func (s *signatures) put(i uint32, words []uint64) {
	if s.of(i) != nil || len(words) > chunkWords {
		return
	}
	for s.refs.n <= int(i) {
		s.refs.add(ref{})
	}
	if s.open == 0 || len(s.all[s.open-1].words)+len(words) > chunkWords {
		s.grow()
	}
	c := s.all[s.open-1]
	*s.refs.at(i) = ref{uint16(s.open), uint16(len(c.words)), uint16(len(words))}
	c.words = append(c.words, words...)
	c.rows, c.newest = append(c.rows, i), max(c.newest, i)
	s.rows++
}

// grow opens a chunk; if there is no room, it is that of the oldest rows.
func (s *signatures) grow() {
	if (len(s.all)+1)*chunkWords*8 <= s.most || len(s.all) == 0 {
		s.all = append(s.all, &chunk{words: make([]uint64, 0, chunkWords)})
		s.open = len(s.all)
		return
	}
	s.open = 1
	for k, c := range s.all {
		if c.newest < s.all[s.open-1].newest {
			s.open = k + 1
		}
	}
	c := s.all[s.open-1]
	for _, i := range c.rows {
		*s.refs.at(i) = ref{}
	}
	s.rows -= len(c.rows)
	c.words, c.rows, c.newest = c.words[:0], c.rows[:0], 0
}

// move takes the signature of a row over from an older list.
func (s *signatures) move(from *signatures, old, i uint32) {
	if words := from.of(old); words != nil {
		s.put(i, words)
	}
}
