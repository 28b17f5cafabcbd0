package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// seek asks for the first message that was stored at a time or later.
type seek struct {
	StartTime time.Time `json:"start_time"`
	NextFor   string    `json:"next_by_subj"`
}

// SeqAt is the sequence of the first message of a stream that was stored at a
// time or later, by the server's clock; one above its last when there is none.
// The server looks it up in its blocks: the cost does not grow with the stream.
func SeqAt(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream, at time.Time) (uint64, error) {
	stream := run.StreamName(s)
	body, err := json.Marshal(seek{at.UTC(), run.Filter(s)})
	if err != nil {
		return 0, fmt.Errorf("seek in %s: %w", stream, err)
	}
	for r := (retry{}); ; {
		m, err := c.request(ctx, "seek in", c.api+"DIRECT.GET."+stream, nil, body)
		switch {
		case err != nil:
		case status(m) == "404":
			state, err := StreamState(ctx, c, run, s)
			return state.LastSeq + 1, err
		case m.Header.Get(jetstream.SequenceHeader) == "":
			return 0, &APIError{Op: "seek in", Subject: stream, Description: status(m) + " " + m.Header.Get("Description")}
		default:
			return strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		}
		if err := r.again(ctx, c, err); err != nil {
			return 0, err
		}
	}
}

// Next is the first message on a subject from a sequence on, as the stream's
// leader has it; ErrNotFound when there is none.
func Next(ctx context.Context, c *Conn, stream, subject string, seq uint64) (*Msg, error) {
	return c.read(ctx, stream, msgGet{Seq: max(seq, 1), NextFor: subject})
}
