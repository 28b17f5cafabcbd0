package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"
)

// FetchConfig configures a [Fetcher].
type FetchConfig struct {
	// WindowBytes bounds what is requested and not yet handed over. Default 32 MiB.
	WindowBytes int
	// MaxBodyBytes bounds a body that travelled in parts. Default 512 MiB.
	MaxBodyBytes int
}

const (
	defaultFetchWindow = 32 << 20
	defaultMaxBody     = 512 << 20
	requestFloor       = 512 << 10 // least bytes a request counts for: its size is somebody's claim
	fetchTries         = 8         // rounds without an answer before a fetch fails
)

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
type Fetcher struct {
	conn    *Conn
	stream  string
	subject string
	cfg     FetchConfig
	window  *semaphore.Weighted
	parts   *semaphore.Weighted // one body in parts at a time
}

// NewFetcher returns a fetcher for the stream of that name.
func NewFetcher(c *Conn, stream string, cfg FetchConfig) *Fetcher {
	if cfg.WindowBytes <= 0 {
		cfg.WindowBytes = defaultFetchWindow
	}
	if cfg.MaxBodyBytes <= 0 {
		cfg.MaxBodyBytes = defaultMaxBody
	}
	return &Fetcher{conn: c, stream: stream, subject: c.api + "DIRECT.GET." + stream, cfg: cfg,
		window: semaphore.NewWeighted(int64(cfg.WindowBytes)), parts: semaphore.NewWeighted(1)}
}

// Fetch reads the messages and hands each to fn, one at a time, in no certain
// order. A message that travelled in parts comes as one, under its last
// sequence. What is missing is reported in a [*MissingError], what cannot be put
// together as ErrMalformed, after all others were handed over. fn's error ends the
// fetch and is returned. hdr and data belong to fn.
func (f *Fetcher) Fetch(ctx context.Context, want []SeqSize, fn func(seq uint64, hdr nats.Header, data []byte) error) error {
	w := fetch{Fetcher: f, want: want, fn: fn, open: map[uint64]uint64{}, replies: make(chan reply, len(want))}
	for i := range want {
		w.todo = append(w.todo, uint64(i))
	}
	defer w.drop()
	if err := w.run(ctx); err != nil {
		return err
	}
	var missing error
	if len(w.missing) > 0 {
		missing = &MissingError{f.stream, w.missing}
	}
	return errors.Join(append(w.broken, missing)...)
}

// fetch is one call of Fetch.
type fetch struct {
	*Fetcher
	want    []SeqSize
	fn      func(uint64, nats.Header, []byte) error
	todo    []uint64          // places in want, to be asked for
	open    map[uint64]uint64 // places asked for, and the calls' ids
	replies chan reply        // room for all: a late one never blocks the connection
	missing []uint64
	broken  []error
	barren  int // rounds without an answer
}

// cost is what a request takes from the window.
func (f *fetch) cost(i uint64) int64 {
	return int64(min(max(f.want[i].Size, requestFloor), f.cfg.WindowBytes))
}

func (f *fetch) run(ctx context.Context) error {
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	for len(f.todo)+len(f.open) > 0 {
		if err := f.ask(ctx); err != nil {
			return err
		}
		timer.Reset(answerTimeout)
		select {
		case r := <-f.replies:
			if err := f.take(ctx, r); err != nil {
				return err
			}
		case <-timer.C:
			if err := f.again(ctx, classify("fetch from", f.stream, nats.ErrTimeout)); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("fetch from %s: %w", f.stream, ctx.Err())
		}
	}
	return nil
}

// ask sends requests while the window has room; it waits for room only when
// nothing of this fetch is on its way.
func (f *fetch) ask(ctx context.Context) error {
	for len(f.todo) > 0 {
		i := f.todo[0]
		if !f.window.TryAcquire(f.cost(i)) {
			if len(f.open) > 0 {
				return nil
			}
			if err := f.window.Acquire(ctx, f.cost(i)); err != nil {
				return fmt.Errorf("fetch from %s: %w", f.stream, err)
			}
		}
		body := append(strconv.AppendUint([]byte(`{"seq":`), f.want[i].Seq, 10), '}')
		id, err := f.conn.start(f.subject, nil, body, i, f.replies)
		if err != nil {
			f.window.Release(f.cost(i))
			if err := f.again(ctx, classify("fetch from", f.stream, err)); err != nil {
				return err
			}
			continue
		}
		f.open[i] = id
		f.todo = f.todo[1:]
	}
	return nil
}

// take handles one answer. Its window is freed after fn had it.
func (f *fetch) take(ctx context.Context, r reply) error {
	m, err := r.check("fetch from", f.stream)
	if err != nil {
		return f.again(ctx, err)
	}
	delete(f.open, r.tag)
	defer f.window.Release(f.cost(r.tag))
	f.barren = 0
	seq := f.want[r.tag].Seq
	switch code := status(m); {
	case code == "404":
		f.missing = append(f.missing, seq)
		return nil
	case code != "" && len(m.Data) == 0:
		return &APIError{Op: "fetch from", Subject: f.stream, Description: code + " " + m.Header.Get("Description")}
	}
	data, err := f.join(ctx, seq, m.Header, m.Data)
	switch {
	case errors.Is(err, ErrNotFound):
		f.missing = append(f.missing, seq)
		return nil
	case errors.Is(err, ErrMalformed):
		f.broken = append(f.broken, err)
		return nil
	case err != nil:
		return err
	}
	return f.fn(seq, m.Header, data)
}

// again puts everything that is open back to be asked for, after a pause.
func (f *fetch) again(ctx context.Context, err error) error {
	for i := range f.open {
		f.todo = append(f.todo, i)
	}
	f.drop()
	if f.conn.isUp() {
		f.barren++
	}
	if f.barren > fetchTries || !retryable(err) {
		return err
	}
	cause := pause(ctx, backoff(f.barren, retryMin, retryMax))
	if cause == nil {
		cause = f.conn.awaitUp(ctx)
	}
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return nil
}

// drop forgets what is open, answers that wait to be read included, and gives
// its window back.
func (f *fetch) drop() {
	for i, id := range f.open {
		f.conn.calls.take(id)
		f.window.Release(f.cost(i))
		delete(f.open, i)
	}
	for len(f.replies) > 0 {
		<-f.replies
	}
}

// join puts a message that travelled in parts together; any other it returns as it is.
func (f *Fetcher) join(ctx context.Context, seq uint64, hdr nats.Header, data []byte) ([]byte, error) {
	if parts, err := partSequences(seq, hdr); err != nil || len(parts) == 0 {
		return data, err
	}
	if err := f.parts.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer f.parts.Release(1)
	return joinParts(ctx, seq, hdr, data, f.cfg.MaxBodyBytes, f.one)
}

// Whole is the body of a message of the fetcher's stream, joined if it travelled
// in parts: ErrMalformed or ErrNotFound when it cannot be.
func (f *Fetcher) Whole(ctx context.Context, m *Msg) ([]byte, error) {
	return f.join(ctx, m.Seq, m.Header, m.Data)
}

// one fetches a single message.
func (f *Fetcher) one(ctx context.Context, seq uint64) (nats.Header, []byte, error) {
	body := append(strconv.AppendUint([]byte(`{"seq":`), seq, 10), '}')
	for r := (retry{}); ; {
		m, err := f.conn.request(ctx, "fetch from", f.subject, nil, body)
		if err == nil && status(m) == "404" {
			return nil, nil, &MissingError{f.stream, []uint64{seq}}
		}
		if err == nil {
			return m.Header, m.Data, nil
		}
		if err := r.again(ctx, f.conn, err); err != nil {
			return nil, nil, err
		}
	}
}
