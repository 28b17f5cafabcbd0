package subjects

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
)

// Headers of ROLLOUTS messages.
const (
	HeaderIndex    = "Hr-Ix"       // one value per trajectory of the bundle, in body order
	HeaderProducer = "Hr-Producer" // who published it
	HeaderCounter  = "Hr-Counter"  // the producer's messages, counted from 1: gaps show loss
	HeaderPart     = "Hr-Part"     // "i/n": an early part of a body over max_payload; such a message has no index
	HeaderParts    = "Hr-Parts"    // on the last part: the sequences of the earlier ones, comma-separated
)

// Address is where a trajectory lies: the stream sequence of its bundle and
// its place in it.
type Address struct {
	Seq   uint64
	Index int
}

// IndexEntry is what the headers say of one trajectory: all that grouping needs.
type IndexEntry struct {
	Kind       Kind
	Group      GroupID
	Slot       Slot
	Attempt    Attempt
	Round      Step // evaluation round; 0 for training
	Status     Status
	Reward     float64
	Segments   int // rows it gives the trainer
	Tokens     int // of all segments
	Longest    int // tokens of its longest segment
	Trainable  int // tokens under the loss mask
	MinVersion PolicyVersion
	MaxVersion PolicyVersion
	Greedy     bool // sampled at temperature 0
	// Environment is the environment's name.
	Environment string
	// Offset and Length place the body in the bundle, in bytes.
	Offset, Length int
	// Checksum is the CRC-32C of the body.
	Checksum uint32
	// Token is the [LeaseToken] of the task it fills; empty where groups come
	// from outside. It is no part of the body.
	Token string
}

// ErrIndex is wrapped by every error of [ParseIndex].
var ErrIndex = errors.New("invalid index entry")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C that index entries carry.
func Checksum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// ID names the entry's trajectory: group/slot/attempt.
func (e *IndexEntry) ID() string { return TrajectoryID(e.Group, e.Slot, e.Attempt) }

// add counts one more segment's tokens.
func (e *IndexEntry) add(tokens int) {
	e.Tokens += tokens
	e.Longest = max(e.Longest, tokens)
}

// train counts the tokens of one span of the loss mask.
func (e *IndexEntry) train(s Span) { e.Trainable += int(s.End) - int(s.Start) }

// sampledBy widens the range of versions.
func (e *IndexEntry) sampledBy(v PolicyVersion) {
	if e.MinVersion == NoVersion || v < e.MinVersion {
		e.MinVersion = v
	}
	e.MaxVersion = max(e.MaxVersion, v)
}

// Append appends the entry's text to b: the version, then the fields in the
// order of docs/wire.md, space-separated.
func (e *IndexEntry) Append(b []byte) []byte {
	num := func(v int64) { b = strconv.AppendInt(append(b, ' '), v, 10) }
	str := func(s string) { b = append(append(b, ' '), s...) }
	b = strconv.AppendInt(b, SchemaVersion, 10)
	str(string(e.Kind))
	str(string(e.Group))
	num(int64(e.Slot))
	num(int64(e.Attempt))
	num(int64(e.Round))
	str(string(e.Status))
	b = strconv.AppendFloat(append(b, ' '), e.Reward, 'g', -1, 64)
	num(int64(e.Segments))
	num(int64(e.Tokens))
	num(int64(e.Longest))
	num(int64(e.Trainable))
	num(int64(e.MinVersion))
	num(int64(e.MaxVersion))
	if e.Greedy {
		str("1")
	} else {
		str("0")
	}
	str(e.Environment)
	num(int64(e.Offset))
	num(int64(e.Length))
	b = strconv.AppendUint(append(b, ' '), uint64(e.Checksum), 16)
	if e.Token != "" {
		str(e.Token)
	}
	return b
}

// String is the text form of the entry.
func (e *IndexEntry) String() string { return string(e.Append(make([]byte, 0, 160))) }

// ParseIndex reads the text form. It refuses unknown versions, missing fields,
// values out of range, and rewards that are not finite; fields after the known
// ones are ignored.
func ParseIndex(s string) (IndexEntry, error) {
	p := indexParser{rest: s}
	if v := p.num("version", 0, math.MaxInt32); p.err == nil && v != SchemaVersion {
		return IndexEntry{}, fmt.Errorf("%w: version %d, this build reads %d", ErrIndex, v, SchemaVersion)
	}
	e := IndexEntry{
		Kind: Kind(p.str("kind")), Group: GroupID(p.token("group")),
		Slot: Slot(p.num("slot", 0, maxSlot)), Attempt: Attempt(p.num("attempt", 0, maxSlot)),
		Round: Step(p.num("round", 0, math.MaxInt64)), Status: Status(p.str("status")), Reward: p.float("reward"),
		Segments: int(p.num("segments", 0, maxSegments)), Tokens: int(p.num("tokens", 0, MaxTokens)),
		Longest: int(p.num("longest", 0, MaxTokens)), Trainable: int(p.num("trainable", 0, MaxTokens)),
		MinVersion: PolicyVersion(p.num("min version", -1, math.MaxInt32)),
		MaxVersion: PolicyVersion(p.num("max version", -1, math.MaxInt32)),
		Greedy:     p.num("greedy", 0, 1) == 1, Environment: p.token("environment"),
		Offset: int(p.num("offset", 0, math.MaxInt32)), Length: int(p.num("length", 0, math.MaxInt32)),
		Checksum: p.hex("checksum"), Token: p.leaseToken(),
	}
	if p.err == nil {
		p.err = e.check()
	}
	if p.err != nil {
		return IndexEntry{}, p.err
	}
	return e, nil
}

func (e *IndexEntry) check() error {
	switch {
	case !e.Kind.Valid():
		return fmt.Errorf("%w: kind %q", ErrIndex, e.Kind)
	case !e.Status.Valid():
		return fmt.Errorf("%w: status %q", ErrIndex, e.Status)
	case e.Longest > e.Tokens || e.Trainable > e.Tokens:
		return fmt.Errorf("%w: longest %d and trainable %d of %d tokens", ErrIndex, e.Longest, e.Trainable, e.Tokens)
	case e.MinVersion > e.MaxVersion:
		return fmt.Errorf("%w: versions %d to %d", ErrIndex, e.MinVersion, e.MaxVersion)
	case e.Status.Trained() && e.Segments == 0:
		return fmt.Errorf("%w: status %s without a segment", ErrIndex, e.Status)
	}
	return nil
}

// indexParser takes the fields of an entry one by one and keeps the first error.
type indexParser struct {
	rest string
	err  error
}

func (p *indexParser) str(name string) string {
	if p.err != nil {
		return ""
	}
	field, rest, _ := strings.Cut(p.rest, " ")
	if field == "" {
		p.err = fmt.Errorf("%w: no %s", ErrIndex, name)
	}
	p.rest = rest
	return field
}

func (p *indexParser) fail(name, value string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s %.40q", ErrIndex, name, value)
	}
}

func (p *indexParser) token(name string) string {
	s := p.str(name)
	if p.err == nil && !validToken(s) {
		p.fail(name, s)
	}
	return s
}

func (p *indexParser) num(name string, low, high int64) int64 {
	s := p.str(name)
	if p.err != nil {
		return 0
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < low || v > high {
		p.fail(name, s)
	}
	return v
}

func (p *indexParser) float(name string) float64 {
	s := p.str(name)
	if p.err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !usableReward(v) {
		p.fail(name, s)
	}
	return v
}

func (p *indexParser) hex(name string) uint32 {
	s := p.str(name)
	if p.err != nil {
		return 0
	}
	v, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		p.fail(name, s)
	}
	return uint32(v)
}

// leaseToken is the optional last field. Whatever else stands there is from a
// later version and ignored.
func (p *indexParser) leaseToken() string {
	if field, _, _ := strings.Cut(p.rest, " "); len(field) == leaseTokenLen && validToken(field) {
		return field
	}
	return ""
}

// validToken is ValidToken without the regular expression: it runs for every
// trajectory the grouper sees.
func validToken(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
