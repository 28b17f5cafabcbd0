package layout

// DType is an element type, in numpy's notation.
type DType string

// The element types.
const (
	Int32   DType = "<i4"
	Float32 DType = "<f4"
	Uint8   DType = "|u1"
)

func (d DType) width() int {
	if d == Uint8 {
		return 1
	}
	return 4
}

// Array describes one array of a slot.
type Array struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"`
	Shape []int  `json:"shape"`
	// Offset is its place in bytes from the slot's start, a multiple of [Alignment].
	Offset int `json:"offset"`
}

func (a *Array) bytes() int {
	n := a.DType.width()
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// shape is the list of arrays of one batch; each starts where the one before
// ends, rounded up to the alignment.
type shape []Array

func (s *shape) add(name string, t DType, dims ...int) {
	*s = append(*s, Array{Name: name, DType: t, Shape: dims, Offset: s.bytes()})
}

// bytes is the end of the last array, rounded up.
func (s shape) bytes() int {
	if len(s) == 0 {
		return 0
	}
	last := &s[len(s)-1]
	return (last.Offset + last.bytes() + Alignment - 1) / Alignment * Alignment
}

// cut returns the memory of each array by name and clears the bytes between them.
func (s shape) cut(slot []byte) map[string][]byte {
	parts := make(map[string][]byte, len(s))
	for i := range s {
		end := s[i].Offset + s[i].bytes()
		parts[s[i].Name] = slot[s[i].Offset:end:end]
		clear(slot[end:s[:i+1].bytes()])
	}
	return parts
}

// shape of a batch of rows rows of length tokens.
func (c *Config) shape(rows, length int) shape {
	var s shape
	switch c.Layout {
	case Packed:
		c.packedShape(&s, rows, length)
	case PromptCompletion:
		c.promptShape(&s, rows, length)
	default:
		c.paddedShape(&s, rows, length)
	}
	return s
}

func (c *Config) paddedShape(s *shape, rows, length int) {
	s.add("tokens", Int32, rows, length)
	s.add("loss_mask", Uint8, rows, length)
	s.add("logprobs", Float32, rows, length)
	c.versions(s, rows, length)
	s.add("advantages", Float32, rows)
	s.add("rewards", Float32, rows)
	s.add("lengths", Int32, rows)
	s.add("group_index", Int32, rows)
	s.add("policy_version", Int32, rows)
}

func (c *Config) packedShape(s *shape, rows, length int) {
	s.add("tokens", Int32, rows, length)
	s.add("segment_ids", Int32, rows, length)
	s.add("positions", Int32, rows, length)
	s.add("loss_mask", Uint8, rows, length)
	s.add("logprobs", Float32, rows, length)
	s.add("advantages", Float32, rows, length)
	c.versions(s, rows, length)
}

func (c *Config) promptShape(s *shape, rows, length int) {
	s.add("prompt_ids", Int32, rows, c.PromptTokens)
	s.add("prompt_mask", Uint8, rows, c.PromptTokens)
	s.add("completion_ids", Int32, rows, length)
	s.add("completion_mask", Uint8, rows, length)
	s.add("old_logprobs", Float32, rows, length)
	c.versions(s, rows, length)
	s.add("advantages", Float32, rows)
	s.add("policy_version", Int32, rows)
}

func (c *Config) versions(s *shape, rows, length int) {
	if c.TokenVersions {
		s.add("versions", Int32, rows, length)
	}
}
