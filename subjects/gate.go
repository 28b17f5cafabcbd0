package subjects

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// MaxBundle bounds the trajectories of one ROLLOUTS message. The server takes
// headers of 64 KiB, which is little more.
const MaxBundle = 512

// ErrForged is wrapped by every reason for which a whole message counts for
// nothing: no honest producer writes such a one.
var ErrForged = errors.New("forged")

var (
	errSubject  = fmt.Errorf("%w: the subject names no producer of the run", ErrForged)
	errProducer = fmt.Errorf("%w: %s is not the producer that its subject says", ErrForged, HeaderProducer)
	errPart     = fmt.Errorf("%w: an early part with an index", ErrForged)
	errGiant    = fmt.Errorf("%w: more than %d trajectories in one message", ErrForged, MaxBundle)
	errToken    = fmt.Errorf("%w: an index entry without the token of its lease", ErrForged)
	errNoIndex  = fmt.Errorf("%w: the message has none", ErrIndex)
)

// Arrival is one index entry of a ROLLOUTS message.
type Arrival struct {
	Entry IndexEntry
	Err   error // wraps ErrIndex: the entry cannot be read, and counts for nothing
}

// Admission is what a [Gate] says of a ROLLOUTS message.
type Admission struct {
	// Producer is what the subject says, which the server has authenticated;
	// empty when it says nothing.
	Producer string
	// Arrivals are the index entries in the order of the bodies. The message's
	// sequence and a place here are the address of a trajectory; those without an
	// error count. None of a refused message, nor of an early part.
	Arrivals []Arrival
	// Refused is the number of entries of a message that counts for nothing.
	Refused int
	// Early: the message is an early part of a larger one. Parts are the sequences
	// of the early parts that a last one lists, ascending.
	Early bool
	Parts []uint64
	// Err is why it counts for nothing: it wraps ErrForged, or ErrIndex when it
	// is no part and has no index.
	Err error
}

// Gate decides which trajectories of ROLLOUTS count. All who read the stream to
// decide something (grouper, inspector, audit) ask it first, and so agree:
//
//   - the last token of the subject is who published, and Hr-Producer says the same;
//   - an early part of a larger message carries no index;
//   - a message has at most [MaxBundle] trajectories;
//   - each entry that can be read carries the token of the lease it fills. One
//     wrong token refuses the whole message: an honest producer never writes one.
//
// The answer depends on the message and the run's key alone. A Gate is not safe
// for concurrent use.
type Gate struct {
	prefix string
	signer *LeaseSigner // nil: tokens are not checked
	out    Admission
}

// NewGate is the gate of a run. Without a key, as for groups from outside
// (source: external), no tokens are checked.
func NewGate(run Run, key []byte) *Gate {
	g := &Gate{prefix: run.RolloutSubject("")}
	if len(key) > 0 {
		g.signer = NewLeaseSigner(key)
	}
	return g
}

// Tokens reports whether the gate checks lease tokens.
func (g *Gate) Tokens() bool { return g.signer != nil }

// Admit looks at the headers of a message. The answer is good until the next call.
func (g *Gate) Admit(subject string, hdr nats.Header) *Admission {
	index := hdr[HeaderIndex]
	g.out = Admission{Arrivals: g.out.Arrivals[:0]}
	if g.out.Err = g.message(subject, hdr, len(index)); g.out.Err == nil {
		g.out.Err = g.entries(index)
	}
	if g.out.Early = len(hdr[HeaderPart]) > 0; !g.out.Early && g.out.Err == nil {
		g.out.Parts = parts(hdr)
	}
	if g.out.Err != nil {
		g.out.Arrivals, g.out.Refused = g.out.Arrivals[:0], len(index)
	}
	return &g.out
}

// maxParts bounds the early parts of a message.
const maxParts = 4096

// parts are the sequences that the last of several parts lists; nil if it lists
// none that can be read.
func parts(hdr nats.Header) (out []uint64) {
	v := hdr[HeaderParts]
	if len(v) != 1 {
		return nil
	}
	for text := range strings.SplitSeq(v[0], ",") {
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil || len(out) == maxParts || len(out) > 0 && seq <= out[len(out)-1] {
			return nil
		}
		out = append(out, seq)
	}
	return out
}

// message checks what does not depend on the entries.
func (g *Gate) message(subject string, hdr nats.Header, entries int) error {
	producer, ok := strings.CutPrefix(subject, g.prefix)
	if !ok || !validToken(producer) {
		return errSubject
	}
	g.out.Producer = producer
	part := len(hdr[HeaderPart]) > 0
	switch said := hdr[HeaderProducer]; {
	case entries > MaxBundle:
		return errGiant
	case part && entries > 0:
		return errPart
	case !part && entries == 0:
		return errNoIndex
	case entries > 0 && (len(said) != 1 || said[0] != producer):
		return errProducer
	}
	return nil
}

// entries reads the entries and checks their tokens.
func (g *Gate) entries(index []string) error {
	for _, text := range index {
		e, err := ParseIndex(text)
		if err == nil && g.signer != nil && !g.signer.Valid(&e) {
			return errToken
		}
		g.out.Arrivals = append(g.out.Arrivals, Arrival{Entry: e, Err: err})
	}
	return nil
}
