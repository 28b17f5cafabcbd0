package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/subjects"
)

// ReadFile reads the lossless form, or ATIF: what the first object says.
func ReadFile(r io.Reader, to Into) error {
	in := bufio.NewReaderSize(r, 1<<20)
	start, err := in.Peek(32)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read file: %w", err)
	}
	if strings.HasPrefix(string(start), `{"headrace_export"`) {
		return ReadJSONL(in, to)
	}
	return ReadATIF(in, to)
}

var errATIF = errors.New("neither an export of Headrace nor ATIF: want the file of `headrace export --format jsonl` or atif, or ATIF trajectories one after another")

// ReadATIF reads trajectories of the Agent Trajectory Interchange Format, one
// JSON object after another. Those that Headrace wrote come back whole; of others
// it takes messages, tool calls, tokens and logprobs.
func ReadATIF(r io.Reader, to Into) error {
	dec := json.NewDecoder(r)
	for n := 0; ; n++ {
		var t atifTrajectory
		err := dec.Decode(&t)
		if errors.Is(err, io.EOF) && n > 0 {
			return nil
		}
		if n == 0 && (err != nil || !strings.HasPrefix(t.Schema, "ATIF-v1.")) {
			return errATIF
		}
		if err != nil {
			return fmt.Errorf("trajectory %d: %w", n+1, err)
		}
		if n == 0 {
			if err := atifHead(&t, to.Head); err != nil {
				return err
			}
		}
		if err := to.Record(t.record(n)); err != nil {
			return fmt.Errorf("trajectory %d: %w", n+1, err)
		}
	}
}

// noRecipe is the recipe of a run that none is known of.
const noRecipe = "{}"

// atifHead is the header in the extra of the first trajectory, or makes one up.
func atifHead(t *atifTrajectory, head func(*Header, []byte) error) error {
	h := &Header{Version: Version, Run: subjects.Run(t.Session), Recipe: json.RawMessage(noRecipe)}
	if t.Extra != nil && t.Extra.Header != nil {
		h = t.Extra.Header
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := readHeader(line, h); err != nil {
		return err
	}
	return head(h, line)
}

var notToken = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// record is the trajectory as a record: the n-th, a group of its own.
func (t *atifTrajectory) record(n int) *Record {
	if t.Extra != nil && t.Extra.Headrace != nil {
		return t.Extra.Headrace
	}
	r := &Record{Kind: subjects.Train, Group: subjects.GroupID("a" + strconv.Itoa(n)), Environment: "atif", Producer: ImportProducer,
		Engine: t.Agent.Model, Status: subjects.Succeeded, Components: map[string]float64{}}
	if name := notToken.ReplaceAllString(t.Agent.Name, "-"); subjects.ValidToken(name) {
		r.Environment = name
	}
	for i := range t.Steps {
		r.atifStep(&t.Steps[i])
	}
	if len(r.Segments) == 0 {
		r.Segments = []Segment{{Parent: -1}} // no tokens were recorded
	}
	return r
}

func (r *Record) atifStep(s *atifStep) {
	at, _ := time.Parse(time.RFC3339Nano, s.Timestamp)
	if now := at.UnixNano(); !at.IsZero() {
		if r.Started == 0 {
			r.Started = now
		}
		r.Finished = now
	}
	m := subjects.Message{Role: s.Source, Content: string(s.Message)}
	if s.Source == "agent" {
		m.Role = "assistant"
	}
	for _, c := range s.Calls {
		call, _ := json.Marshal(struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}{c.Function, c.Arguments})
		m.Content = strings.TrimPrefix(m.Content+"\n"+openCall+"\n"+string(call)+"\n"+closeCall, "\n")
	}
	r.Messages = append(r.Messages, m)
	if s.Source == "agent" && s.Metrics != nil {
		r.atifTokens(s.Metrics, r.Finished)
	}
	if s.Observation != nil {
		for _, o := range s.Observation.Results {
			r.Messages = append(r.Messages, subjects.Message{Role: "tool", Content: string(o.Content)})
		}
	}
}

// atifTokens brings the tokens of a call into the segments: on to the last one
// if the prompt begins with it, else into a new one that forks from it.
func (r *Record) atifTokens(m *atifMetrics, at int64) {
	if len(m.CompletionIDs) == 0 {
		return
	}
	last := len(r.Segments) - 1
	n := 0
	if last >= 0 {
		have := r.Segments[last].Tokens
		for n < len(have) && n < len(m.PromptIDs) && have[n] == m.PromptIDs[n] {
			n++
		}
	}
	if last < 0 || n < len(r.Segments[last].Tokens) && m.PromptIDs != nil {
		r.Segments = append(r.Segments, Segment{Parent: last, Shared: n})
		last++
	}
	s := &r.Segments[last]
	from := len(s.Tokens)
	if m.PromptIDs != nil {
		s.Tokens = append(s.Tokens, m.PromptIDs[from:]...)
	}
	begin := len(s.Tokens)
	s.Tokens = append(s.Tokens, m.CompletionIDs...)
	if len(m.Logprobs) == len(m.CompletionIDs) { // else nothing says how they were sampled
		s.Logprobs = append(s.Logprobs, m.Logprobs...)
		s.Versions = append(s.Versions, [3]int64{int64(begin), int64(len(s.Tokens)), 0})
		s.LossMask = append(s.LossMask, [2]int32{int32(begin), int32(len(s.Tokens))}) //nolint:gosec // Check bounds it
	}
	r.Turns = append(r.Turns, Turn{Segment: last, Prompt: [2]int32{int32(from), int32(begin)}, Completion: [2]int32{int32(begin), int32(len(s.Tokens))}, //nolint:gosec // Check bounds it
		Queued: at, Generated: at, Stepped: at, Cached: int32(m.Cached)}) //nolint:gosec // a count
}

// UnmarshalJSON reads text, or content in parts, of which it keeps the texts.
func (t *atifText) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = atifText(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var all []string
	for _, p := range parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	*t = atifText(strings.Join(all, "\n"))
	return nil
}
