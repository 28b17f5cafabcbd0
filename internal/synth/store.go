package synth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// store is where the streams of the run go. ROLLOUTS is restored while it is made
// up; the others are collected in files until then, since a restore that pauses is
// given up by the server.
type store struct {
	conn    *bus.Conn
	run     subjects.Run
	options subjects.StreamOptions
	streams map[subjects.Stream]*backup
	files   map[subjects.Stream]*os.File
	pipe    *io.PipeWriter
	buffer  *bufio.Writer
	flying  *errgroup.Group
	size    int64
}

// spooled are the streams that are collected.
var spooled = []subjects.Stream{subjects.Ledger, subjects.Weights, subjects.Telemetry, subjects.DeadLetter}

// openStore takes the place of the run's streams, which are empty.
func openStore(ctx context.Context, conn *bus.Conn, run subjects.Run, o subjects.StreamOptions) (*store, error) {
	s := &store{conn: conn, run: run, options: o, streams: map[subjects.Stream]*backup{}, files: map[subjects.Stream]*os.File{}}
	for _, name := range append(spooled, subjects.Rollouts) {
		if err := conn.JS().DeleteStream(ctx, run.StreamName(name)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("make room for %s: %w", run.StreamName(name), err)
		}
	}
	for _, name := range spooled {
		f, err := os.CreateTemp("", "headrace-synthetic-")
		if err != nil {
			return s, fmt.Errorf("collect %s: %w", name, err)
		}
		s.files[name], s.streams[name] = f, newBackup(f)
	}
	var r *io.PipeReader
	r, s.pipe = io.Pipe()
	s.buffer = bufio.NewWriterSize(s.pipe, chunk)
	s.flying, ctx = errgroup.WithContext(ctx)
	s.flying.Go(func() error {
		err := restore(ctx, conn.NC(), run.StreamConfig(subjects.Rollouts, o), r)
		r.CloseWithError(err)
		return err
	})
	s.streams[subjects.Rollouts] = newBackup(s.buffer)
	return s, nil
}

// add adds a message to a stream.
func (s *store) add(name subjects.Stream, subject string, at int64, header []byte, data ...[]byte) uint64 {
	return s.streams[name].add(subject, at, header, data...)
}

func (s *store) err() error { return s.streams[subjects.Rollouts].err }

// finish puts everything in its place.
func (s *store) finish(ctx context.Context) error {
	err := errors.Join(s.streams[subjects.Rollouts].close(), s.buffer.Flush(), s.pipe.Close(), s.flying.Wait())
	for _, name := range spooled {
		if err == nil {
			err = s.place(ctx, name)
		}
	}
	for _, b := range s.streams {
		s.size += b.size
	}
	return err
}

func (s *store) place(ctx context.Context, name subjects.Stream) error {
	if err := s.streams[name].close(); err != nil {
		return err
	}
	if _, err := s.files[name].Seek(0, io.SeekStart); err != nil {
		return err
	}
	return restore(ctx, s.conn.NC(), s.run.StreamConfig(name, s.options), s.files[name])
}

// drop gives up what is not finished and removes the files.
func (s *store) drop() {
	if s.pipe != nil {
		_ = s.pipe.CloseWithError(context.Canceled)
		_ = s.flying.Wait()
	}
	for _, f := range s.files {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
}
