package export

import (
	"strings"
	"testing"
)

func TestReadATIF_OfHeadraceComesBackWhole(t *testing.T) {
	c := world(t)
	want, _ := exported(t, c, origin, Filter{})
	text, _ := written(t, c, Options{Format: ATIF})
	var i *Importer
	importer(t, c, &i, func(to Into) error { return ReadFile(strings.NewReader(text), to) })
	if _, err := i.Finish(1); err != nil {
		t.Fatal(err)
	}
	have, _ := exported(t, c, copied, Filter{})
	if have != want {
		t.Errorf("exported\n%s\nafter an import\n%s", want, have)
	}
}

// foreign is a trajectory as other programs write it, over several lines.
const foreign = `{
  "schema_version": "ATIF-v1.6", "session_id": "s-1",
  "agent": {"name": "other agent", "version": "2.0", "model_name": "some/model", "extra": {"x": 1}},
  "steps": [
    {"step_id": 1, "timestamp": "2026-01-02T03:04:05Z", "source": "user", "message": "größer?"},
    {"step_id": 2, "timestamp": "2026-01-02T03:04:06Z", "source": "agent", "message": "I look.", "reasoning_content": "…",
     "tool_calls": [{"tool_call_id": "c1", "function_name": "ls", "arguments": {"path": "<.>"}}],
     "observation": {"results": [{"source_call_id": "c1", "content": [{"type": "text", "text": "a.txt"}]}]},
     "metrics": {"prompt_tokens": 2, "completion_tokens": 2, "prompt_token_ids": [1, 2], "completion_token_ids": [3, 4], "logprobs": [-0.5, -0.25]}},
    {"step_id": 3, "source": "agent", "message": "done",
     "metrics": {"prompt_token_ids": [1, 2, 3, 4, 5], "completion_token_ids": [6], "logprobs": [-1]}},
    {"step_id": 4, "source": "agent", "message": "again",
     "metrics": {"prompt_token_ids": [1, 9], "completion_token_ids": [6]}}
  ]
}
{"schema_version": "ATIF-v1.7", "session_id": "s-2", "agent": {"name": "x", "version": "1"}, "steps": [{"step_id": 1, "source": "agent", "message": "hi"}]}`

func TestReadATIF_TakesWhatOthersRecorded(t *testing.T) {
	var all []*Record
	err := ReadFile(strings.NewReader(foreign), into(func(r *Record) error {
		all = append(all, r)
		return r.trajectory().Check(0)
	}))
	if err != nil || len(all) != 2 {
		t.Fatal(err, len(all))
	}
	r := all[0]
	if r.Environment != "other-agent" || len(r.Messages) != 5 || r.Messages[2].Content != "a.txt" || r.Finished-r.Started != 1e9 {
		t.Errorf("%+v", r)
	}
	if m := conversation(r.Messages)[1]; m.Content != "I look." || len(m.ToolCalls) != 1 || m.ToolCalls[0].Function.Name != "ls" {
		t.Errorf("%+v", m)
	}
	if len(r.Segments) != 2 || len(r.Segments[0].Tokens) != 6 || len(r.Segments[0].Logprobs) != 3 || r.Segments[1].Shared != 1 || len(r.Segments[1].LossMask) != 0 {
		t.Errorf("%+v", r.Segments)
	}
}

func TestReadFile_RefusesWhatIsNeither(t *testing.T) {
	for _, text := range []string{"", "hello", `{"messages": []}`, `{"schema_version": "ATIF-v2.0"}`} {
		err := ReadFile(strings.NewReader(text), into(func(*Record) error { return nil }))
		if err == nil || !strings.Contains(err.Error(), "neither") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
