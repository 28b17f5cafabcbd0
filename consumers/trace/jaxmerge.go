package trace

import (
	"cmp"
	"container/heap"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/perfetto"
)

// jaxSequence and jaxPID keep what is merged apart from what is there: a trace
// is put together by appending.
const (
	jaxSequence = 1 << 20
	jaxPID      = 1 << 20
	jaxTracks   = perfetto.TrackID(1) << 40
	jaxTitle    = "trainer (JAX)"
)

// MergeJAX appends what is in a window of some JAX profiles to a Perfetto trace,
// as a process "trainer (JAX)" with a track for each thread of the host and each
// line of a device: what XLA ran inside of a train step, at the time at which it
// did. A path is a profile's folder, or a *.trace.json(.gz) file of it. w is at
// the end of a trace that [Write] wrote, or will be appended to one.
//
// A profile's times count from its start. The trainer marks each step that it
// profiles with an annotation that carries its Unix time, which places events to
// some microseconds on the trainer's clock; o.Clock then puts them on the
// server's, like the trainer's spans. Without marks the start in profile.json
// counts, which may be 100 ms off, and without that the error is [ErrJAXClock].
// Nothing is written unless all profiles could be read, or nobody asked for them by name.
func MergeJAX(w io.Writer, paths []string, o JAXOptions) (*JAXReport, error) {
	if o.MaxEvents <= 0 {
		o.MaxEvents = defaultJAXEvents
	}
	report, tracks := &JAXReport{}, map[string][]block{}
	for _, path := range paths {
		p, began, uncertain, err := openJAX(path, o.MaxEvents)
		if err != nil && o.Found {
			report.Unread++
			continue
		}
		if err != nil {
			return nil, err
		}
		report.Profiles++
		report.LeftOut += p.leftOut
		report.Uncertainty = max(report.Uncertainty, uncertain.Seconds())
		p.place(tracks, began+o.Clock, o, report)
	}
	return report, drawJAX(w, tracks, report)
}

// openJAX reads a profile and finds when it began, by the trainer's clock.
func openJAX(path string, most int) (p *jaxProfile, began int64, uncertain time.Duration, err error) {
	file, err := jaxFile(path)
	if err == nil {
		p, err = readJAX(file, most)
	}
	if err == nil {
		began, uncertain, err = p.began(file)
	}
	return p, began, uncertain, err
}

// jax appends the profiles that were asked for, or else those that the trainer
// took in the window.
func (r *reader) jax(w io.Writer) (err error) {
	clock := r.clocks[r.trainer()]
	paths := r.o.JAX
	if len(paths) == 0 && r.o.Profiles != "" {
		if paths, err = JAXProfiles(r.o.Profiles, r.from-clock.ahead, r.to-clock.ahead); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return nil
	}
	x, err := MergeJAX(w, paths, JAXOptions{From: r.from, To: r.to, Clock: clock.ahead, Found: len(r.o.JAX) == 0})
	if err != nil {
		return err
	}
	r.report.JAX = x
	r.report.Packets, r.report.Bytes = r.report.Packets+x.packets, r.report.Bytes+x.bytes
	return nil
}

// take keeps an event, if it is one of the longest.
func (p *jaxProfile) take(e *wireJAXEvent, most int) {
	at := jaxThread{e.PID, e.TID}
	switch {
	case e.Phase == "M" && len(p.threads)+len(p.processes) < mostJAXTracks:
		switch e.Name {
		case "process_name":
			p.processes[e.PID] = short(textOf(e.Args["name"]))
		case "thread_name":
			p.threads[at] = short(textOf(e.Args["name"]))
		}
		return
	case e.Phase != "X" || !(e.At >= 0 && e.At < farJAX) || !(e.Duration >= 0 && e.Duration < farJAX):
		return
	}
	x := jaxEvent{jaxThread: at, start: int64(e.At * 1e3), duration: int64(e.Duration * 1e3), name: short(e.Name)}
	if e.Name == jaxClock {
		if ns, err := strconv.ParseInt(textOf(e.Args["unix_ns"]), 10, 64); err == nil && ns > 0 && ns < farthestJAX {
			p.marks = append(p.marks, ns-x.start)
		}
		return
	}
	if len(p.events) == most {
		p.leftOut++
		if x.duration <= p.events[0].duration {
			return
		}
		heap.Pop(&p.events)
	}
	x.args = jaxArgs(e.Args)
	heap.Push(&p.events, x)
}

// farthestJAX is a time, Unix nanoseconds, that no profile is from: of the year 2096.
const farthestJAX = int64(4e18)

// short is a text that a name may be.
func short(s string) string {
	if len(s) > mostJAXName {
		s = strings.ToValidUTF8(s[:mostJAXName], "")
	}
	return cmp.Or(s, "?")
}

// jaxKept are the arguments that say something to people.
var jaxKept = []string{"step_num", "hlo_module", "hlo_op", "long_name", "tf_op", "bytes_accessed", "model_flops"}

func jaxArgs(args map[string]any) (kept []perfetto.Arg) {
	for _, key := range jaxKept {
		if v := textOf(args[key]); v != "" {
			kept = append(kept, perfetto.Text(key, short(v)))
		}
	}
	return kept
}

// place puts the events of the window on tracks, by the threads' names.
func (p *jaxProfile) place(tracks map[string][]block, began int64, o JAXOptions, report *JAXReport) {
	for i := range p.events {
		e := &p.events[i]
		start := began + e.start
		if start > o.To || start+e.duration < o.From {
			continue
		}
		name := cmp.Or(p.processes[e.pid], strconv.FormatInt(e.pid, 10)) + " " + cmp.Or(p.threads[e.jaxThread], strconv.FormatInt(e.tid, 10))
		if _, known := tracks[name]; !known && len(tracks) >= mostJAXTracks {
			report.LeftOut++
			continue
		}
		report.Events++
		tracks[name] = append(tracks[name], block{start: start, end: start + e.duration, name: e.name, category: "jax", args: e.args})
	}
}

// drawJAX writes the tracks: the host's Python thread first, as it is what the
// trainer's own spans are of.
func drawJAX(w io.Writer, tracks map[string][]block, report *JAXReport) error {
	if len(tracks) == 0 {
		return nil
	}
	p := &pen{Writer: perfetto.NewWriter(w, jaxSequence), last: jaxTracks}
	process := p.track(perfetto.Track{Name: jaxTitle, Ranked: true, Rank: jaxPID, Process: &perfetto.Process{PID: jaxPID, Name: jaxTitle},
		Description: "what JAX's profiler saw of the trainer: threads of the host, and what XLA ran"})
	names := slices.SortedFunc(maps.Keys(tracks), func(a, b string) int {
		return cmp.Or(cmp.Compare(jaxRank(a), jaxRank(b)), cmp.Compare(a, b))
	})
	for i, name := range names {
		report.Tracks++
		p.blocks(p.track(perfetto.Track{Parent: process, Name: name, Rank: i + 1}), nest(tracks[name]))
	}
	report.packets, report.bytes = p.Written()
	return p.Flush()
}

func jaxRank(name string) int {
	switch {
	case strings.HasSuffix(name, " python"):
		return 0
	case strings.HasPrefix(name, "/device"):
		return 1
	}
	return 2
}
