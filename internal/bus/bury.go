package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// WholeMessage is the Item of a dead letter that is a whole message.
const WholeMessage = -1

// maxReason bounds the reason, bytes.
const maxReason = 512

// DeadLetter is what a stage could not use.
type DeadLetter struct {
	Stage    string // who could not: [subjects.InspectStage], ...
	Reason   string // why, one line
	Source   string // name of the stream the bytes came from
	Sequence uint64 // their sequence there
	Item     int    // place in the bundle, or WholeMessage
	ID       string // trajectory id, where it could be read
	Data     []byte // the original bytes
	Bytes    int    // how many they were, where Data has not all of them
}

// Bury stores a dead letter and returns its sequence once it is durable. The
// id follows from stage, source, sequence and item, so burying twice within two
// minutes stores once. Data over max_payload travels in parts. A full
// dead-letter stream is an ErrStreamFull at once.
func Bury(ctx context.Context, c *Conn, run subjects.Run, d DeadLetter) (seq uint64, err error) {
	subject, hdr := run.DeadLetterSubject(d.Stage), d.header()
	id := hdr[jetstream.MsgIDHeader][0]
	if limit := c.MaxPayload(); int64(len(d.Data))+partSlack > min(limit, maxPartSize) {
		seq, err = publishParts(ctx, hdr, d.Data, limit, func(ctx context.Context, h nats.Header, piece []byte) (uint64, error) {
			return Send(ctx, c, subject, h[jetstream.MsgIDHeader][0], h, piece)
		})
	} else {
		seq, err = Send(ctx, c, subject, id, hdr, d.Data)
	}
	if err != nil {
		return 0, fmt.Errorf("bury %s: %w", id, err)
	}
	return seq, nil
}

func (d DeadLetter) header() nats.Header {
	sequence := strconv.FormatUint(d.Sequence, 10)
	hdr := nats.Header{
		jetstream.MsgIDHeader:   {strings.Join([]string{d.Stage, d.Source, sequence, strconv.Itoa(d.Item)}, "/")},
		subjects.HeaderReason:   {oneLine(d.Reason, maxReason)},
		subjects.HeaderSource:   {d.Source},
		subjects.HeaderSequence: {sequence},
	}
	if d.Item != WholeMessage {
		hdr[subjects.HeaderItem] = []string{strconv.Itoa(d.Item)}
	}
	if d.Bytes > 0 {
		hdr[subjects.HeaderBytes] = []string{strconv.Itoa(d.Bytes)}
	}
	if d.ID != "" {
		hdr[subjects.HeaderID] = []string{oneLine(d.ID, maxReason/2)}
	}
	return hdr
}

// oneLine makes s safe in a header: what it quotes may come from anybody.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.TrimSpace(s)
}
