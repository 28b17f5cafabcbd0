package synth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// backup is a stream to be, in the format of the server's backups.
type backup struct {
	zip  *s2.Writer
	arc  *archive.Writer
	seq  uint64
	size int64
	err  error
}

// newBackup writes a backup to w; close it.
func newBackup(w io.Writer) *backup {
	b := &backup{zip: s2.NewWriter(w, s2.WriterUncompressed(), s2.WriterConcurrency(1))}
	b.arc = archive.NewWriter(b.zip)
	state := []byte(`{"messages":0,"bytes":0,"first_seq":1,"last_seq":0,"consumer_count":0}`) // what follows is counted by the server
	b.entry(&archive.Header{Name: "state.json", Timestamp: 1, PayloadSize: int64(len(state))}, state)
	return b
}

// add adds the next message and returns its sequence.
func (b *backup) add(subject string, at int64, header []byte, data ...[]byte) uint64 {
	b.seq++
	h := &archive.Header{Name: subject, Timestamp: at, Sequence: b.seq, HeaderSize: int64(len(header))}
	for _, d := range data {
		h.PayloadSize += int64(len(d))
	}
	b.size += h.HeaderSize + h.PayloadSize
	b.entry(h, append([][]byte{header}, data...)...)
	return b.seq
}

func (b *backup) entry(h *archive.Header, parts ...[]byte) {
	if b.err == nil {
		b.err = b.arc.WriteHeader(h)
	}
	for _, p := range parts {
		if b.err == nil && len(p) > 0 {
			_, b.err = b.arc.Write(p)
		}
	}
}

// close ends the backup: an entry without a name says that it is whole.
func (b *backup) close() error {
	b.entry(&archive.Header{})
	return errors.Join(b.err, b.arc.Close(), b.zip.Close())
}

// chunk is what travels to the server at a time.
const chunk = 512 << 10

// answer is the server's to a request about a restore.
type answer struct {
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
	Deliver string `json:"deliver_subject"`
}

// restore makes a stream, which must not be there, from its backup.
func restore(ctx context.Context, nc *nats.Conn, cfg jetstream.StreamConfig, r io.Reader) error {
	request, err := json.Marshal(map[string]any{"config": cfg, "state": map[string]int{}})
	if err != nil {
		return err
	}
	a, err := ask(ctx, nc, "$JS.API.STREAM.RESTORE."+cfg.Name, request)
	if err != nil {
		return fmt.Errorf("restore %s: %w", cfg.Name, err)
	}
	for buf := make([]byte, chunk); ; {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if _, err := ask(ctx, nc, a.Deliver, buf[:n]); err != nil {
				return fmt.Errorf("restore %s: %w", cfg.Name, err)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", cfg.Name, err)
		}
	}
	if _, err := ask(ctx, nc, a.Deliver, nil); err != nil {
		return fmt.Errorf("restore %s: %w", cfg.Name, err)
	}
	return nil
}

func ask(ctx context.Context, nc *nats.Conn, subject string, data []byte) (a answer, err error) {
	m, err := nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return a, err
	}
	if len(m.Data) > 0 {
		err = json.Unmarshal(m.Data, &a)
	}
	if err == nil && a.Error != nil {
		err = errors.New(a.Error.Description)
	}
	return a, err
}
