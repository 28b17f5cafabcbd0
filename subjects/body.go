package subjects

import "fmt"

// Limits on one trajectory. A body beyond them is malformed, not large.
const (
	MaxTokens     = 1 << 24 // tokens of a trajectory, all segments together
	maxSegments   = 1 << 12
	maxTurns      = 1 << 16
	maxMessages   = 1 << 16
	maxComponents = 1 << 8
)

// SegmentView is one segment as it lies in the body: little-endian arrays that
// alias the message, so that placing a row is a copy and decoding is none.
type SegmentView struct {
	Tokens   []byte // [T] int32
	Logprobs []byte // [sampled] float32
	Versions []byte // [n] (start, end, version) int32
	LossMask []byte // [n] (start, end) int32
	Parent   int
	Shared   int
}

// Len is the number of tokens.
func (s *SegmentView) Len() int { return len(s.Tokens) / 4 }

// BodyView is a body as a trainer needs it, aliasing the message.
type BodyView struct {
	Kind        Kind
	Group       GroupID
	Slot        Slot
	Attempt     Attempt
	Round       Step
	Status      Status
	Reward      float64
	Components  map[string]float64
	Environment string
	Tokenizer   string
	Sampling    Sampling
	Segments    []SegmentView

	// What only [DecodeTrajectory] gives out, checked but not decoded.
	task, producer, engine, reason []byte
	seed, started, finished        int64
	turns                          turnColumns
	messages                       []byte
}

// ViewBody validates the bytes of one body and returns its view. Only the
// structure is checked, that of every field; [BodyView.Check] checks the values.
func ViewBody(b []byte) (BodyView, error) {
	var v BodyView
	if err := Validate(b); err != nil {
		return v, err
	}
	c := &cursor{b: b}
	version, required := int64(0), 0
	c.fields(func(key []byte) bool {
		switch string(key) {
		case "v":
			version = c.int()
			return true
		case "k", "g", "s", "a", "env", "st", "r", "seg":
			required++
		}
		return v.field(c, key) || v.detail(c, key)
	})
	if c.err == nil {
		c.err = checkVersion(version)
	}
	if c.err == nil && required != 8 {
		c.fail("a body has the fields k, g, s, a, env, st, r and seg")
	}
	return v, c.err
}

// checkVersion refuses messages of a later schema, and those without a version.
func checkVersion(v int64) error {
	if v < 1 || v > SchemaVersion {
		return fmt.Errorf("%w: schema version (field \"v\") %d, this build reads 1 to %d", ErrMalformed, v, SchemaVersion)
	}
	return nil
}

func (v *BodyView) field(c *cursor, key []byte) bool {
	switch string(key) {
	case "k":
		v.Kind = internKind(c.text())
	case "g":
		v.Group = GroupID(c.str())
	case "s":
		v.Slot = Slot(c.intIn(0, maxSlot))
	case "a":
		v.Attempt = Attempt(c.intIn(0, maxSlot))
	case "rd":
		v.Round = Step(c.int())
	case "st":
		v.Status = internStatus(c.text())
	case "r":
		v.Reward = c.float()
	case "rc":
		v.Components = floatMap(c, maxComponents)
	case "env":
		v.Environment = c.str()
	case "tok":
		v.Tokenizer = c.str()
	case "sp":
		c.fields(func(key []byte) bool { return v.Sampling.field(c, key) })
	case "seg":
		v.Segments = segmentViews(c)
	default:
		return false
	}
	return true
}

// detail reads the fields that only people and tools look at.
func (v *BodyView) detail(c *cursor, key []byte) bool {
	switch string(key) {
	case "task":
		v.task = c.bin()
	case "seed":
		v.seed = c.int()
	case "prod":
		v.producer = c.text()
	case "eng":
		v.engine = c.text()
	case "why":
		v.reason = c.text()
	case "time":
		if n := c.arrayLen(); c.err == nil && n != 2 {
			c.fail("%d times, want start and end", n)
		}
		v.started, v.finished = c.int(), c.int()
	case "turns":
		v.turns = readTurns(c)
	case "msgs":
		v.messages = messageRows(c)
	default:
		return false
	}
	return true
}

func (s *Sampling) field(c *cursor, key []byte) bool {
	switch string(key) {
	case "temperature":
		s.Temperature = c.float()
	case "top_p":
		s.TopP = c.float()
	case "top_k":
		s.TopK = int(c.intIn(-1, 1<<31-1))
	case "max_new_tokens":
		s.MaxNewTokens = int(c.intIn(0, 1<<31-1))
	case "seed":
		s.Seed = c.uint()
	default:
		return false
	}
	return true
}

// internKind and internStatus spare an allocation for the known values.
func internKind(p []byte) Kind {
	switch string(p) {
	case string(Train):
		return Train
	case string(Eval):
		return Eval
	}
	return Kind(p)
}

func internStatus(p []byte) Status {
	for _, s := range [...]Status{Succeeded, Truncated, Overlong, Failed, Aborted} {
		if string(p) == string(s) {
			return s
		}
	}
	return Status(p)
}

// floatMap reads a map from names to numbers; nil when empty.
func floatMap(c *cursor, limit int) map[string]float64 {
	var m map[string]float64
	c.floats(limit, func(key []byte, v float64) {
		if _, twice := m[string(key)]; twice {
			c.fail("entry %.32q comes twice", key)
			return
		}
		if m == nil {
			m = map[string]float64{}
		}
		m[string(key)] = v
	})
	return m
}

func segmentViews(c *cursor) []SegmentView {
	n := c.arrayLen()
	if n > maxSegments {
		c.fail("%d segments", n)
	}
	if c.err != nil || n == 0 {
		return nil
	}
	views := make([]SegmentView, n)
	for i := range views {
		s := &views[i]
		s.Parent = -1
		c.fields(func(key []byte) bool { return s.field(c, key) })
		if c.err != nil {
			c.err = fmt.Errorf("segment %d: %w", i, c.err)
			return nil
		}
	}
	return views
}

func (s *SegmentView) field(c *cursor, key []byte) bool {
	switch string(key) {
	case "ids":
		s.Tokens = c.array(4)
	case "lp":
		s.Logprobs = c.array(4)
	case "ver":
		s.Versions = c.array(12)
	case "mask":
		s.LossMask = c.array(8)
	case "par":
		s.Parent = int(c.intIn(-1, maxSegments))
	case "sh":
		s.Shared = int(c.intIn(0, MaxTokens))
	default:
		return false
	}
	return true
}

// Span is the i-th span of the loss mask.
func (s *SegmentView) Span(i int) Span { return Span{i32(s.LossMask, 2*i), i32(s.LossMask, 2*i+1)} }

// Spans is the number of spans of the loss mask.
func (s *SegmentView) Spans() int { return len(s.LossMask) / 8 }

// VersionSpan is the i-th version span.
func (s *SegmentView) VersionSpan(i int) VersionSpan {
	return VersionSpan{i32(s.Versions, 3*i), i32(s.Versions, 3*i+1), PolicyVersion(i32(s.Versions, 3*i+2))}
}

// VersionSpans is the number of version spans.
func (s *SegmentView) VersionSpans() int { return len(s.Versions) / 12 }

// Index is the index entry that belongs to the body, without its place.
func (v *BodyView) Index() IndexEntry {
	e := IndexEntry{
		Kind: v.Kind, Group: v.Group, Slot: v.Slot, Attempt: v.Attempt, Round: v.Round,
		Status: v.Status, Reward: v.Reward, Environment: v.Environment,
		Segments: len(v.Segments), Greedy: v.Sampling.Temperature == 0,
		MinVersion: NoVersion, MaxVersion: NoVersion,
	}
	for i := range v.Segments {
		s := &v.Segments[i]
		e.add(s.Len())
		for k := range s.Spans() {
			e.train(s.Span(k))
		}
		for k := range s.VersionSpans() {
			e.sampledBy(s.VersionSpan(k).Version)
		}
	}
	return e
}
