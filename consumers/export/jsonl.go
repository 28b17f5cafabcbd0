package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/headrace/headrace/subjects"
)

// lines writes one JSON value a line.
type lines struct{ enc *json.Encoder }

func newLines(w io.Writer) lines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return lines{enc}
}

// jsonl is the lossless form.
type jsonl struct{ lines }

// NewJSONL writes the lossless form: the header, a [Record] a line, an [Event] a line.
func NewJSONL(w io.Writer, h *Header) (Writer, error) {
	j := jsonl{newLines(w)}
	return j, j.enc.Encode(h)
}

func (j jsonl) Write(r *Record, _ subjects.Address) error { return j.enc.Encode(r) }
func (j jsonl) WriteEvent(e *Event) error                 { return j.enc.Encode(e) }
func (jsonl) Close() error                                { return nil }

// maxLine bounds a line that is read: a trajectory of MaxTokens and its text.
const maxLine = 1 << 30

var errForm = errors.New("not an export of Headrace: want a first line with headrace_export, as `headrace export --format jsonl` writes it")

func readHeader(line []byte, h *Header) error {
	*h = Header{}
	if err := json.Unmarshal(line, h); err != nil || h.Version == 0 {
		return errForm
	}
	if h.Version > Version {
		return fmt.Errorf("it has version %d of the form, this build reads %d: use a newer headrace", h.Version, Version)
	}
	return nil
}

// Into is where a file is read to.
type Into struct {
	Head   func(h *Header, line []byte) error // the header, as it is
	Record func(*Record) error
	Event  func(*Event) error
}

// line hands over a line that is not the header.
func (to *Into) line(b []byte) error {
	if bytes.HasPrefix(b, []byte(eventStart)) {
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		return to.Event(&e)
	}
	var rec Record
	if err := json.Unmarshal(b, &rec); err != nil {
		return err
	}
	return to.Record(&rec)
}

// ReadJSONL reads the lossless form.
func ReadJSONL(r io.Reader, to Into) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<20), maxLine)
	for n := 1; s.Scan(); n++ {
		if n == 1 {
			var h Header
			if err := readHeader(s.Bytes(), &h); err != nil {
				return err
			}
			if err := to.Head(&h, bytes.Clone(s.Bytes())); err != nil {
				return err
			}
			continue
		}
		if err := to.line(s.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read export: %w", err)
	}
	return nil
}
