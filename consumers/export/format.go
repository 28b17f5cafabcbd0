package export

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Format is a form that a run is exported in.
type Format string

// The formats.
const (
	JSONL      Format = "jsonl"      // all there is, a trajectory a line
	Parquet    Format = "parquet"    // a Hugging Face dataset, a segment a row
	ATIF       Format = "atif"       // Agent Trajectory Interchange Format, one a line
	OpenAI     Format = "openai"     // chat messages with tool calls, one conversation a line
	Preference Format = "preference" // pairs: chosen and rejected of one group
)

// Formats lists them all.
func Formats() []Format { return []Format{JSONL, Parquet, ATIF, OpenAI, Preference} }

// Path is where an export goes unless the user says otherwise.
func (f Format) Path(run subjects.Run) string {
	switch f {
	case JSONL:
		return string(run) + ".jsonl.zst"
	case Parquet:
		return string(run) + "-parquet"
	}
	return string(run) + "." + string(f) + ".jsonl"
}

// Options configure [Export].
type Options struct {
	Format Format
	// Path is a file, for Parquet a folder, or "-" for Stdout. Default: Format.Path.
	Path   string
	Filter Filter
	// Margin is the least difference of the rewards of a preference pair. Default
	// 0: any difference.
	Margin float64
	Stdout io.Writer
}

// Result says what was written.
type Result struct {
	Run    subjects.Run `json:"run"`
	Format Format       `json:"format"`
	Path   string       `json:"path"`
	Files  []string     `json:"files"`
	Counts
	// Rows are lines, or rows of the table; Bytes and Digest (SHA-256) of them
	// before compression. Of Parquet they are of the files, one after another.
	Rows   uint64 `json:"rows"`
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

// sink is a writer that can say what it wrote.
type sink interface {
	Writer
	// commit is after Close, when all went well; discard is always called.
	commit(*Result) error
	discard()
}

// Export writes a run, as it is now, to a file or a folder.
func Export(ctx context.Context, c *bus.Conn, run subjects.Run, o Options) (*Result, error) {
	record, err := bus.LookupRun(ctx, c, run)
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", run, err)
	}
	h, err := HeaderOf(record)
	if err != nil {
		return nil, err
	}
	if o.Path == "" {
		o.Path = o.Format.Path(run)
	}
	s, err := newSink(h, o)
	if err != nil {
		return nil, err
	}
	defer s.discard()
	result := &Result{Run: run, Format: o.Format, Path: o.Path}
	var to Writer = s
	if f, lines := s.(*file); lines {
		to = f.Writer // which says whether it has a place for events
	}
	if result.Counts, err = Read(ctx, c, run, o.Filter, to); err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, fmt.Errorf("export %s: %w", run, err)
	}
	return result, s.commit(result)
}

func newSink(h *Header, o Options) (sink, error) {
	if o.Format == Parquet {
		return newDataset(h, o.Path)
	}
	out, err := Create(o.Path, o.Stdout)
	if err != nil {
		return nil, err
	}
	f := &file{out: out, counter: &lineCounter{to: out}}
	switch o.Format {
	case JSONL:
		f.Writer, err = NewJSONL(f.counter, h)
	case ATIF:
		f.Writer = newATIF(f.counter, h)
	case OpenAI:
		f.Writer = newOpenAI(f.counter)
	case Preference:
		f.Writer = newPreference(f.counter, o.Margin)
	default:
		err = fmt.Errorf("format %q: want one of %s", o.Format, strings.Trim(fmt.Sprint(Formats()), "[]"))
	}
	if err != nil {
		f.discard()
		return nil, err
	}
	return f, nil
}

// file is the sink of the formats that are lines.
type file struct {
	Writer
	out     *Output
	counter *lineCounter
}

func (f *file) commit(r *Result) error {
	r.Files, r.Rows, r.Bytes, r.Digest = []string{f.out.path}, f.counter.lines, f.out.Bytes, f.out.Digest()
	return f.out.Commit()
}

func (f *file) discard() { f.out.Discard() }

// lineCounter counts writes: each is a line.
type lineCounter struct {
	to    io.Writer
	lines uint64
}

func (l *lineCounter) Write(b []byte) (int, error) {
	l.lines++
	return l.to.Write(b)
}
