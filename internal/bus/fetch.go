package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// FetchConfig configures a [Fetcher].
type FetchConfig struct {
	// WindowBytes bounds what is requested and not yet handed over. Default 32 MiB.
	WindowBytes int
	// MaxBodyBytes bounds a body that travelled in parts. Default 512 MiB.
	MaxBodyBytes int
}

// SeqSize asks for one message. Size is a guess of its bytes; 0 is none.
type SeqSize struct {
	Seq  uint64
	Size int
}

// MissingError lists the sequences that a fetch did not find. It is an ErrNotFound.
type MissingError struct {
	Stream string
	Seqs   []uint64
}

// Error names the stream and the first sequences.
func (e *MissingError) Error() string {
	n := min(len(e.Seqs), 8)
	return fmt.Sprintf("fetch from %s: %d messages not found: %d", e.Stream, len(e.Seqs), e.Seqs[:n])
}

// Unwrap is ErrNotFound.
func (e *MissingError) Unwrap() error { return ErrNotFound }

// Fetcher reads messages of one stream by sequence, pipelined. It is safe for
// concurrent use; the window is shared.
type Fetcher struct{}

// NewFetcher returns a fetcher for the stream of that name.
func NewFetcher(c *Conn, stream string, cfg FetchConfig) *Fetcher { return &Fetcher{} }

// Fetch reads the messages and hands each to fn, one at a time, in no certain
// order. A message that travelled in parts comes as one, under its last
// sequence. What is missing is reported in a [*MissingError] after all others were
// handed over. fn's error ends the fetch and is returned. hdr and data belong to fn.
func (f *Fetcher) Fetch(ctx context.Context, want []SeqSize, fn func(seq uint64, hdr nats.Header, data []byte) error) error {
	return errors.ErrUnsupported
}
