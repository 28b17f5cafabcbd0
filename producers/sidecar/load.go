package sidecar

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/subjects"
)

// bring makes the engine serve a version and acknowledges the outcome. If the
// engine has it already, as after a trainer that resumed, only the ack is new.
func (s *sidecar) bring(ctx context.Context, e *subjects.VersionEvent) {
	ack := &subjects.AckEvent{V: subjects.SchemaVersion, Engine: s.cfg.Engine, Version: e.Version, Incarnation: e.Incarnation}
	var err error
	if !s.has(e) || s.failed == e { // what failed half-way is loaded again
		err = s.load(ctx, e, ack)
	}
	if err != nil && ctx.Err() != nil {
		return // the engine goes on with what it has; nobody waits for this ack
	}
	log := s.cfg.Log.With().Str("engine", s.cfg.Engine).Int64("version", int64(e.Version)).Logger()
	if err != nil {
		s.failed = e
		s.retry = min(max(2*s.retry, firstRetry), mostRetry)
		s.retryAt = time.Now().Add(s.retry)
		ack.Error = err.Error()
		log.Error().Err(err).Dur("retry_in", s.retry).Msg("weights are not loaded")
	} else {
		s.acked, s.failed, s.retry, s.proven = e, nil, 0, s.serves
		log.Debug().Float64("pause_s", ack.PauseSeconds).Float64("load_s", ack.LoadSeconds).
			Float64("verify_s", ack.VerifySeconds).Float64("resume_s", ack.ResumeSeconds).Msg("weights loaded")
	}
	s.announce(ctx) // before the ack: whoever waits for it finds the engine in the registry
	s.ack(ctx, ack)
}

// load verifies the files, pauses the engine, loads, asks what it serves now
// and resumes, whatever happened in between: an engine that could not load
// goes on with its old weights.
func (s *sidecar) load(ctx context.Context, e *subjects.VersionEvent, ack *subjects.AckEvent) (err error) {
	lap := s.sight.stopwatch(e.Version)
	defer s.sight.synced(ack)
	err = verifyFiles(ctx, e)
	ack.VerifySeconds = lap(s.sight.verify)
	if err != nil {
		return err
	}
	s.sight.pauses(true)
	defer s.sight.pauses(false)
	err = s.pause(ctx)
	ack.PauseSeconds = lap(s.sight.pause)
	if err == nil {
		err = s.replace(ctx, e)
		ack.LoadSeconds = lap(s.sight.load)
	}
	if err == nil {
		err = s.verify(ctx, e)
		ack.VerifySeconds += lap(s.sight.verify)
	}
	resumed := s.resume(ctx)
	ack.ResumeSeconds = lap(s.sight.resume)
	if err = errors.Join(err, resumed); err != nil {
		s.look(ctx)
	}
	return err
}

func (s *sidecar) pause(ctx context.Context) error {
	pausing, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := s.client.Pause(pausing, s.cfg.Pause); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

func (s *sidecar) replace(ctx context.Context, e *subjects.VersionEvent) error {
	loading, cancel := context.WithTimeout(ctx, s.cfg.LoadTimeout)
	defer cancel()
	if err := s.client.UpdateWeights(loading, e.Dir, e.Version); err != nil {
		return fmt.Errorf("load version %d: %w", e.Version, err)
	}
	flushing, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	err := s.client.Flush(flushing)
	if s.cfg.Pause == sglang.PauseInPlace && errors.Is(err, producers.ErrBadRequest) {
		return nil // requests in flight keep their cache: that is what in place means
	}
	if err != nil {
		return fmt.Errorf("flush the cache of older weights: %w", err)
	}
	return nil
}

// verify believes nothing but the engine's own word.
func (s *sidecar) verify(ctx context.Context, e *subjects.VersionEvent) error {
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := s.client.Info(asking)
	if err != nil {
		return fmt.Errorf("verify version %d: %w", e.Version, err)
	}
	s.serves = info
	if err := serves(info, e); err != nil {
		return fmt.Errorf("verify version %d: %w", e.Version, err)
	}
	return nil
}

const resumeAttempts = 5

// resume continues generation even when ctx has ended: nobody else would.
func (s *sidecar) resume(ctx context.Context) error {
	var err error
	for range resumeAttempts {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		err = s.client.Continue(asking)
		cancel()
		if err == nil || errors.Is(err, producers.ErrUnavailable) {
			break // or the process is gone, and its pause with it
		}
	}
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

// verifyFiles compares size and checksum of every file with the event.
func verifyFiles(ctx context.Context, e *subjects.VersionEvent) error {
	for _, f := range e.Files {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("weights of version %d: file name %q leaves its folder", e.Version, f.Name)
		}
		if err := verifyFile(ctx, filepath.Join(e.Dir, f.Name), f); err != nil {
			return fmt.Errorf("weights of version %d: %w", e.Version, err)
		}
	}
	return nil
}

func verifyFile(ctx context.Context, path string, want subjects.File) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, &contextReader{ctx, file})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if have := hex.EncodeToString(hash.Sum(nil)); n != want.Bytes || have != want.SHA256 {
		return fmt.Errorf("%s has %d bytes and sha256 %.12s, announced were %d and %.12s", path, n, have, want.Bytes, want.SHA256)
	}
	return nil
}

// contextReader ends a long read with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (s *sidecar) ack(ctx context.Context, ack *subjects.AckEvent) {
	ack.At = time.Now().UnixNano()
	body, err := subjects.EncodeMessage(ack)
	if err == nil {
		sending, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		id := "ack-" + s.cfg.Engine + "-" + strconv.FormatInt(int64(ack.Version), 10) + "-" + strconv.FormatInt(ack.At, 36)
		_, err = bus.Send(sending, s.conn, s.cfg.Run.AckSubject(s.cfg.Engine), id, nil, body)
	}
	if err != nil {
		s.cfg.Log.Error().Err(err).Str("engine", s.cfg.Engine).Msg("version is not acknowledged")
	}
}
