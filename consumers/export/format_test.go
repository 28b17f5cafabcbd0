package export

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// written exports the world and returns the text of the one file.
func written(t *testing.T, c *bus.Conn, o Options) (string, *Result) {
	t.Helper()
	var out bytes.Buffer
	o.Path, o.Stdout = "-", &out
	r, err := Export(t.Context(), c, origin, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), r
}

func decoded[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

func TestExport_IsTheSameTwiceAndCompressed(t *testing.T) {
	c := world(t)
	dir := t.TempDir()
	for _, format := range Formats() {
		t.Run(string(format), func(t *testing.T) {
			var digests []string
			for _, name := range []string{"a", "b"} {
				path := filepath.Join(dir, string(format)+name)
				r, err := Export(t.Context(), c, origin, Options{Format: format, Path: path})
				if err != nil {
					t.Fatal(err)
				}
				if r.Trajectories != 8 || r.Rows == 0 || r.Bytes == 0 {
					t.Errorf("%+v", r)
				}
				digests = append(digests, r.Digest)
			}
			if digests[0] != digests[1] {
				t.Error(digests)
			}
			if _, err := Export(t.Context(), c, origin, Options{Format: format, Path: filepath.Join(dir, string(format)+"a")}); err == nil || !strings.Contains(err.Error(), "exists") {
				t.Error(err)
			}
		})
	}
	r, err := Export(t.Context(), c, origin, Options{Format: JSONL, Path: filepath.Join(dir, "x.jsonl.zst")})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := exported(t, c, origin, Filter{})
	in, err := Source(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // read
	var have bytes.Buffer
	if _, err := have.ReadFrom(in); err != nil || have.String() != want || r.Bytes != int64(len(want)) {
		t.Error(err, r)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+partial)); len(left) > 0 {
		t.Error(left)
	}
}

func TestOpenAI_TakesToolCallsOutOfTheText(t *testing.T) {
	text, r := written(t, world(t), Options{Format: OpenAI})
	all := decoded[chatLine](t, text)
	if len(all) != 7 || r.Rows != 7 { // one failed before a word
		t.Fatalf("%d lines: %s", len(all), text)
	}
	m := all[0].Messages
	if len(m) != 5 || m[2].Content != "先算一下。" || len(m[2].ToolCalls) != 1 || m[2].ToolCalls[0].Function != (Function{"calculator", `{"expression": "3+4 <é>"}`}) {
		t.Errorf("%+v", m)
	}
	if m[3].ToolCallID != m[2].ToolCalls[0].ID || m[3].Content != "7\u2028" || m[4].ToolCalls != nil {
		t.Errorf("%+v", m)
	}
}

func TestConversation_LeavesWhatIsNoCall(t *testing.T) {
	for _, text := range []string{"<tool_call>{", "<tool_call>{}</tool_call>", "<tool_call>\nhello</tool_call> and", "plain"} {
		m := conversation([]subjects.Message{{Role: "assistant", Content: text}})
		if len(m) != 1 || m[0].Content != text || m[0].ToolCalls != nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
	m := conversation([]subjects.Message{{Role: "assistant", Content: `<tool_call>{"name":"a","arguments":"{\"x\":1}"}</tool_call><tool_call>{"name":"b"}</tool_call>`}})
	if c := m[0].ToolCalls; len(c) != 2 || c[0].Function.Arguments != `{"x":1}` || c[1].Function.Arguments != "{}" || c[1].ID == c[0].ID {
		t.Errorf("%+v", m)
	}
}

func TestPreference_PairsBestAndWorstOfAGroup(t *testing.T) {
	c := world(t)
	text, _ := written(t, c, Options{Format: Preference, Margin: 1})
	all := decoded[pair](t, text)
	if len(all) != 1 {
		t.Fatalf("%s", text)
	}
	if p := all[0]; p.ChosenID != "t1/0/0" || p.RejectedID != "t1/2/0" || len(p.Prompt) != 2 || p.Rejected[0].Content != "Answer: 8 «falsch»" || p.Chosen[0].ToolCalls == nil {
		t.Errorf("%+v", p)
	}
	if text, _ := written(t, c, Options{Format: Preference, Margin: 1.5}); text != "" {
		t.Errorf("margin 1.5: %s", text)
	}
}

func TestPreference_TheSameWordsAreNoPair(t *testing.T) {
	var out bytes.Buffer
	w := newPreference(&out, 0).(*preference)
	for slot, reward := range []float64{1, 0} {
		r := newRecord(played("t9", subjects.Slot(slot), reward), &Fate{Member: true, members: 2})
		if err := w.Write(r, subjects.Address{}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 || len(w.groups) > 0 {
		t.Error(out.String(), w.groups)
	}
}

func TestATIF_HasTheStepsAndTheRecord(t *testing.T) {
	c := world(t)
	text, _ := written(t, c, Options{Format: ATIF})
	all := decoded[atifTrajectory](t, text)
	if len(all) != 8 {
		t.Fatal(len(all))
	}
	first := all[0]
	if first.Schema != "ATIF-v1.7" || len(first.Steps) != 4 || first.Steps[2].Source != "agent" || first.Steps[2].ID != 3 {
		t.Fatalf("%+v", first)
	}
	s := first.Steps[2]
	if s.Observation.Results[0].Call != s.Calls[0].ID || s.Observation.Results[0].Content != "7\u2028" || s.Metrics.Completion != 2 ||
		len(s.Metrics.Logprobs) != 2 || s.Metrics.Logprobs[1] != -1.25 || first.Final.Completion != 4 {
		t.Errorf("%+v", s)
	}
	if failed := all[1]; len(failed.Steps) != 1 || !strings.Contains(string(failed.Steps[0].Message), "überlastet") {
		t.Errorf("%+v", failed)
	}
}

func TestParquet_ShardsAndComesBack(t *testing.T) {
	c := world(t)
	dir := filepath.Join(t.TempDir(), "set")
	d, err := newDataset(&Header{Run: origin}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.discard()
	d.limit = 1 // a shard for each trajectory that comes after bytes were flushed
	if _, err := Read(t.Context(), c, origin, Filter{}, d); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := d.commit(&r); err != nil {
		t.Fatal(err)
	}
	var all []row
	for _, f := range r.Files[:len(r.Files)-1] {
		part, err := parquet.ReadFile[row](f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part...)
	}
	if len(all) != 9 || r.Rows != 9 { // eight trajectories, one of two segments
		t.Fatalf("%d rows in %v", len(all), r.Files)
	}
	fork := all[4]
	if fork.ID != "t1/1/0" || fork.Segment != 1 || fork.Shared != 4 || len(fork.Logprobs) != 7 || fork.Logprobs[5] != -2.5 || fork.LossMask[5] != 0 || fork.LossMask[6] != 1 ||
		fork.Versions[4] != -1 || fork.Versions[6] != 12 || fork.Messages[2].Content != call || fork.Step != 1 {
		t.Errorf("%+v", fork)
	}
	card, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || !strings.Contains(string(card), "num_examples: 9") || !strings.Contains(string(card), "- name: input_ids\n    list: int32") {
		t.Errorf("%v %s", err, card)
	}
}
