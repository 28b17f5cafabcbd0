package trace

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/perfetto"
)

// JAXOptions say what of a profile is wanted, and how its times relate to the run's.
type JAXOptions struct {
	// From and To are the window, Unix nanoseconds of the server's clock; what
	// lies outside of it is left out.
	From, To int64
	// Clock is what to add to the trainer's times to get the server's.
	Clock int64
	// MaxEvents bounds the events that are drawn; the shortest are left out.
	// Default 200000.
	MaxEvents int
	// Found says that nobody asked for these profiles by name: one that cannot be
	// read is counted, and is no error.
	Found bool
}

// JAXReport says what of the profiles was drawn.
type JAXReport struct {
	Profiles int `json:"profiles"`
	Unread   int `json:"unread,omitempty"`
	Tracks   int `json:"tracks"`
	Events   int `json:"events"`
	// LeftOut are the shortest ones, beyond the bound.
	LeftOut int `json:"left_out,omitempty"`
	// Uncertainty is how far the events may be from where they were, in seconds.
	Uncertainty float64 `json:"uncertainty_seconds"`

	packets, bytes int64
}

const (
	defaultJAXEvents = 200_000
	mostJAXBytes     = 4 << 30 // of a profile, decompressed
	mostJAXTracks    = 4096
	mostJAXName      = 200
	jaxClock         = "headrace clock" // headrace/trainer/profile.py writes it
	jaxInfo          = "profile.json"
	// jaxStart is how long after the time in profile.json the profile's own clock
	// starts, at most: what is known without a mark.
	jaxStart = 100 * time.Millisecond
)

// ErrJAXClock is that nothing tells when a profile was taken.
var ErrJAXClock = errors.New("the profile has no `headrace clock` annotation and no profile.json: take it with trainer.profile or HEADRACE_PROFILE_STEPS, " +
	"or put `with jax.profiler.TraceAnnotation(\"headrace clock\", unix_ns=time.time_ns()): pass` into it")

// jaxProfile is a profile as it was read: the longest of its events.
type jaxProfile struct {
	events    jaxEvents
	leftOut   int
	processes map[int64]string
	threads   map[jaxThread]string
	marks     []int64 // by each mark, the Unix time at which the profile's clock began
}

type jaxThread struct{ pid, tid int64 }

// jaxEvent is a complete event; times are nanoseconds of the profile's clock.
type jaxEvent struct {
	jaxThread
	start, duration int64
	name            string
	args            []perfetto.Arg
}

// jaxEvents is a heap with the shortest event on top.
type jaxEvents []jaxEvent

func (h jaxEvents) Len() int           { return len(h) }
func (h jaxEvents) Less(i, j int) bool { return h[i].duration < h[j].duration }
func (h jaxEvents) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jaxEvents) Push(x any)        { *h = append(*h, x.(jaxEvent)) }
func (h *jaxEvents) Pop() any          { return pop(h) }

// JAXProfiles are the profiles below a folder that overlap a window of Unix
// nanoseconds by the trainer's clock, as the trainer notes it in profile.json.
// A folder that is not there has none.
func JAXProfiles(folder string, from, to int64) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for JAX profiles: %w", err)
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if i, ok := readJAXInfo(path); ok && i.Started <= to && i.Stopped >= from {
			found = append(found, path)
		}
	}
	return found, nil
}

// jaxTimes is what profile.json says of when.
type jaxTimes struct {
	Started int64 `json:"started_unix_ns"`
	Stopped int64 `json:"stopped_unix_ns"`
}

func readJAXInfo(folder string) (jaxTimes, bool) {
	var i jaxTimes
	f, err := os.Open(filepath.Join(folder, jaxInfo))
	if err != nil {
		return i, false
	}
	defer f.Close()
	err = json.NewDecoder(io.LimitReader(f, 1<<16)).Decode(&i)
	return i, err == nil && i.Started > 0 && i.Stopped >= i.Started
}

// jaxFile finds a profile's events: path itself, or the newest such file below it.
func jaxFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("JAX profile: %w", err)
	}
	if !info.IsDir() {
		return path, nil
	}
	newest, at := "", time.Time{}
	err = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".trace.json.gz") {
			return err
		}
		if i, err := e.Info(); err == nil && (newest == "" || i.ModTime().After(at)) {
			newest, at = p, i.ModTime()
		}
		return nil
	})
	if err == nil && newest == "" {
		err = fmt.Errorf("JAX profile: %s has no *.trace.json.gz", path)
	}
	return newest, err
}

// began is the Unix time, nanoseconds, at which the profile's clock began, and
// how wrong that may be. A mark begins a little after its time was taken: of
// several the one that was quickest counts.
func (p *jaxProfile) began(path string) (at int64, uncertain time.Duration, err error) {
	if len(p.marks) > 0 {
		return slices.Max(p.marks), time.Duration(slices.Max(p.marks) - slices.Min(p.marks)), nil
	}
	for range 5 { // folder/plugins/profile/time/host.trace.json.gz
		if i, ok := readJAXInfo(path); ok {
			return i.Started, jaxStart, nil
		}
		path = filepath.Dir(path)
	}
	return 0, 0, ErrJAXClock
}

// readJAX reads a profile: Chrome's JSON, as it is or compressed.
func readJAX(path string, most int) (*jaxProfile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("JAX profile: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	var text io.Reader = in
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("JAX profile %s: %w", path, err)
		}
		text = z
	}
	p := &jaxProfile{processes: map[int64]string{}, threads: map[jaxThread]string{}}
	if err := p.read(json.NewDecoder(&jaxLimit{text, mostJAXBytes}), most); err != nil {
		return nil, fmt.Errorf("JAX profile %s: %w", path, err)
	}
	return p, nil
}

// jaxLimit ends a profile that is too long with an error.
type jaxLimit struct {
	r    io.Reader
	left int64
}

func (l *jaxLimit) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return n, fmt.Errorf("more than %d GB", mostJAXBytes>>30)
	}
	return n, err
}

// read takes the events of {"traceEvents": […], …} as they come.
func (p *jaxProfile) read(in *json.Decoder, most int) error {
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("no JSON object"))
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		if key != "traceEvents" {
			var other json.RawMessage
			if err := in.Decode(&other); err != nil {
				return err
			}
			continue
		}
		if t, err := in.Token(); err != nil || t != json.Delim('[') {
			return cmp.Or(err, errors.New("traceEvents is no list"))
		}
		for in.More() {
			var e wireJAXEvent
			if err := in.Decode(&e); err != nil {
				return err
			}
			p.take(&e, most)
		}
		if _, err := in.Token(); err != nil {
			return err
		}
	}
	return nil
}

// wireJAXEvent is an event of Chrome's format; times are microseconds.
type wireJAXEvent struct {
	Phase    string         `json:"ph"`
	PID      int64          `json:"pid"`
	TID      int64          `json:"tid"`
	At       float64        `json:"ts"`
	Duration float64        `json:"dur"`
	Name     string         `json:"name"`
	Args     map[string]any `json:"args"`
}

// farJAX is more microseconds than any profile has.
const farJAX = 1e12

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}
