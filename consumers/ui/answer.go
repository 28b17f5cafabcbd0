package ui

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
)

// status is an error with the status that it is answered with.
type status struct {
	code int
	error
}

func (s status) Unwrap() error { return s.error }

// ErrNoRun is wrapped by [Runs.Open] when there is no such run.
var ErrNoRun = errors.New("not found")

var errNoPage = status{http.StatusNotFound, errors.New("the API has no such page")}

func notFound(format string, args ...any) error {
	return status{http.StatusNotFound, fmt.Errorf(format, args...)}
}

func badRequest(err error) error { return status{http.StatusBadRequest, err} }

func busy(text string) error { return status{http.StatusServiceUnavailable, errors.New(text)} }

// fail answers an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusServiceUnavailable
	var with status
	switch {
	case errors.As(err, &with):
		code = with.code
	case errors.Is(err, bus.ErrNotFound), errors.Is(err, bus.ErrNoStream), errors.Is(err, ErrNoRun), errors.Is(err, show.ErrMissing):
		code = http.StatusNotFound
	case r.Context().Err() != nil:
		return // nobody waits for it
	case s.ctx.Err() != nil:
		err = errors.New("the server is stopping")
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("it took too long: try again, or ask for less")
	default:
		s.o.Log.Debug().Err(err).Str("path", r.URL.Path).Msg("request failed")
	}
	complain(w, code, err.Error())
}

// complain answers with an error's sentence.
func complain(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	data, err := json.Marshal(map[string]string{"error": text})
	if err == nil {
		w.Write(append(data, '\n')) //nolint:errcheck // the browser is gone
	}
}

func takesGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

const (
	smallAnswer  = 1 << 10 // bytes that are not worth packing
	writeTimeout = time.Minute
)

var packers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one
	return z
}}

// answer sends v as JSON.
func answer(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return send(w, r, data)
}

// send sends JSON.
func send(w http.ResponseWriter, r *http.Request, data []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder has none
	if len(data) < smallAnswer || !takesGzip(r) || r.Method == http.MethodHead {
		h.Set("Content-Length", strconv.Itoa(len(data)))
		w.Write(data) //nolint:errcheck // the browser is gone
		return nil
	}
	h.Set("Content-Encoding", "gzip")
	z := packers.Get().(*gzip.Writer) //nolint:forcetypeassert // nothing else is put there
	defer packers.Put(z)
	z.Reset(w)
	z.Write(data) //nolint:errcheck // the browser is gone
	z.Close()     //nolint:errcheck // as above
	return nil
}

// take waits for a place among those who do something costly.
func (s *Server) take(ctx context.Context, places chan struct{}) (release func(), err error) {
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-wait.Done():
		return nil, busy("too much is asked for at once: try again")
	}
}
