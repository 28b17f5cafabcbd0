package ui

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/trace"
	"github.com/headrace/headrace/subjects"
)

const (
	longestTrace  = time.Hour
	mostDrawn     = 20_000 // trajectories: a browser's viewer stands no more
	traceDeadline = 2 * time.Minute
)

// draw answers with a window of the run as a Perfetto trace. It is made in a file,
// so that what is sent is whole.
func (s *Server) draw(w http.ResponseWriter, r *http.Request) error {
	o, name, err := window(r)
	if err != nil {
		return err
	}
	v, release, err := s.hold(r.Context(), r)
	if err != nil {
		return err
	}
	defer release()
	done, err := s.take(r.Context(), s.trace)
	if err != nil {
		return err
	}
	defer done()
	o.Profiles = v.Profiles
	f, err := os.CreateTemp("", "headrace-*.pftrace")
	if err != nil {
		return fmt.Errorf("make room for the trace: %w", err)
	}
	defer func() { f.Close(); os.Remove(f.Name()) }() //nolint:errcheck // nobody else knows it
	if _, err := trace.Write(r.Context(), v.Conn, v.run, o, f); err != nil {
		return err
	}
	size, err := f.Seek(0, 1)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		return fmt.Errorf("read the trace: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%s.pftrace"`, v.run, name))
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(traceDeadline)) // a recorder has none
	if r.Method != http.MethodHead {
		f.WriteTo(w) //nolint:errcheck // the browser is gone
	}
	return nil
}

var stepsPattern = regexp.MustCompile(`^(\d{1,18})(?:\.\.(\d{1,18}))?$`)

// window reads last=60s or step=40..42.
func window(r *http.Request) (o trace.Options, name string, err error) {
	o.MaxTrajectories = mostDrawn
	last, steps := r.URL.Query().Get("last"), r.URL.Query().Get("step")
	switch {
	case last != "" && steps != "":
		return o, "", badRequest(fmt.Errorf("last and step: want one of them"))
	case steps != "":
		m := stepsPattern.FindStringSubmatch(steps)
		if m == nil {
			return o, "", wrong("step", steps, "a step, or two as in 40..42")
		}
		first, _ := strconv.ParseInt(m[1], 10, 64) // the pattern fits
		final := first
		if m[2] != "" {
			final, _ = strconv.ParseInt(m[2], 10, 64)
		}
		if first < 1 || final < first {
			return o, "", wrong("step", steps, "the first, from 1, and then the last")
		}
		o.First, o.Final = subjects.Step(first), subjects.Step(final)
		return o, "step-" + strings.ReplaceAll(steps, "..", "-"), nil
	case last == "":
		last = "60s"
	}
	if o.Last, err = time.ParseDuration(last); err != nil || o.Last <= 0 || o.Last > longestTrace {
		return o, "", wrong("last", last, "a time up to an hour, as in 60s")
	}
	return o, "last-" + last, nil
}
