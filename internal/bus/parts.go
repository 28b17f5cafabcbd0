package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

const (
	maxParts    = 4096
	maxPartSize = 16 << 20 // the file store refuses records over 32 MiB
	partSlack   = 2048     // headers of a part, the list of sequences apart
	perSequence = 21       // digits and comma of one sequence in that list
)

// IsPart reports whether a message is an early part of a larger one. It has
// no index; its bytes come with the last part.
func IsPart(hdr nats.Header) bool { return len(hdr[subjects.HeaderPart]) > 0 }

// Lowest is the lowest sequence that reading a message needs: its own, or that
// of its first part.
func Lowest(seq uint64, hdr nats.Header) uint64 {
	if parts, err := partSequences(seq, hdr); err == nil && len(parts) > 0 {
		return parts[0]
	}
	return seq
}

// cut divides n bytes for messages of at most limit bytes, headers included,
// and returns the size of a part. The last message also lists the sequences.
func cut(n int, limit int64) (size int, err error) {
	if n > defaultMaxBody { // readers would refuse it
		return 0, &APIError{Op: "cut", Subject: strconv.Itoa(n) + " bytes", Kind: ErrTooLarge, Description: fmt.Sprintf("a body has at most %d bytes", defaultMaxBody)}
	}
	room := int(min(limit, maxPartSize)) - partSlack
	for parts := 2; parts <= maxParts; parts++ {
		size = room - perSequence*parts
		if size > 0 && size*parts >= n {
			return size, nil
		}
	}
	return 0, &APIError{Op: "cut", Subject: strconv.Itoa(n) + " bytes", Kind: ErrTooLarge, Description: fmt.Sprintf("max_payload is %d", limit)}
}

// publishFunc publishes one message durably and returns its sequence.
type publishFunc func(ctx context.Context, hdr nats.Header, data []byte) (uint64, error)

// publishParts publishes a body in parts: the last one has the headers of the
// whole message, among them its id. The ids of the others follow from the
// content, so that parts of two different bodies under one id never mix.
func publishParts(ctx context.Context, whole nats.Header, body []byte, limit int64, publish publishFunc) (uint64, error) {
	size, err := cut(len(body), limit)
	if err != nil {
		return 0, err
	}
	n := (len(body) + size - 1) / size
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:16])
	var list []byte
	for i := 1; i < n; i++ {
		name := strconv.Itoa(i) + "/" + strconv.Itoa(n)
		hdr := nats.Header{subjects.HeaderPart: {name}, jetstream.MsgIDHeader: {"part/" + digest + "/" + name}}
		seq, err := publish(ctx, hdr, body[:size])
		if err != nil {
			return 0, fmt.Errorf("part %s: %w", name, err)
		}
		body = body[size:]
		list = append(strconv.AppendUint(list, seq, 10), ',')
	}
	return publish(ctx, withHeader(whole, subjects.HeaderParts, string(list[:len(list)-1])), body)
}

// partSequences reads the list of early parts: ascending, below seq, nil for
// nearly all messages.
func partSequences(seq uint64, hdr nats.Header) ([]uint64, error) {
	v := hdr[subjects.HeaderParts]
	if len(v) == 0 {
		return nil, nil
	}
	fields := strings.Split(v[0], ",")
	if len(v) != 1 || len(fields) >= maxParts {
		return nil, fmt.Errorf("%w: message %d lists too many parts", ErrMalformed, seq)
	}
	parts, last := make([]uint64, len(fields)), uint64(0)
	for i, f := range fields {
		p, err := strconv.ParseUint(f, 10, 64)
		if err != nil || p <= last || p >= seq {
			return nil, fmt.Errorf("%w: message %d lists part %.24q", ErrMalformed, seq, f)
		}
		parts[i], last = p, p
	}
	return parts, nil
}

// readPart fetches one message for joinParts.
type readPart func(ctx context.Context, seq uint64) (nats.Header, []byte, error)

// joinParts puts a body together from its last message. Of at most limit bytes
// the whole body is held once.
func joinParts(ctx context.Context, seq uint64, hdr nats.Header, last []byte, limit int, read readPart) ([]byte, error) {
	parts, err := partSequences(seq, hdr)
	if err != nil || len(parts) == 0 {
		return last, err
	}
	var body []byte
	for i, p := range parts {
		h, piece, err := read(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("part %d of message %d: %w", i+1, seq, err)
		}
		want := strconv.Itoa(i+1) + "/" + strconv.Itoa(len(parts)+1)
		if v := h[subjects.HeaderPart]; len(v) != 1 || v[0] != want {
			return nil, fmt.Errorf("%w: message %d is not part %s of message %d", ErrMalformed, p, want, seq)
		}
		if len(body)+len(piece)+len(last) > limit {
			return nil, fmt.Errorf("%w: message %d and its parts exceed %d bytes", ErrMalformed, seq, limit)
		}
		if body == nil {
			body = make([]byte, 0, min(limit, len(piece)*len(parts)+len(last)))
		}
		body = append(body, piece...)
	}
	return append(body, last...), nil
}
