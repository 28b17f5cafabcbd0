package agents_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/producers/agenttest"
)

func TestConformance(t *testing.T) {
	for _, kind := range agents.Kinds() {
		for _, system := range []string{"", "be brief"} {
			t.Run(string(kind)+"/"+system, func(t *testing.T) {
				make, err := agents.New(kind, system)
				if err != nil {
					t.Fatal(err)
				}
				agenttest.Run(t, make)
			})
		}
	}
}

func TestNew_UnknownKindNamesTheKnownOnes(t *testing.T) {
	_, err := agents.New("oracle", "")
	if err == nil || !strings.Contains(err.Error(), "conversation") {
		t.Errorf("error %v does not say what is known", err)
	}
}

func TestAgents_OpenWithTheSystemPrompt(t *testing.T) {
	make, err := agents.New(agents.Tool, "be brief")
	if err != nil {
		t.Fatal(err)
	}
	question := envs.Message{Role: envs.RoleUser, Content: "why?"}
	got := make().Observe(envs.Observation{Messages: []envs.Message{question}}).Messages
	want := []envs.Message{{Role: envs.RoleSystem, Content: "be brief"}, question}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTool_ReadsCalls(t *testing.T) {
	make, err := agents.New(agents.Tool, "")
	if err != nil {
		t.Fatal(err)
	}
	call := func(name, arguments string) envs.ToolCall {
		c := envs.ToolCall{Name: name}
		if arguments != "" {
			c.Arguments = []byte(arguments)
		}
		return c
	}
	for name, c := range map[string]struct {
		text  string
		calls []envs.ToolCall // nil: a final answer
	}{
		"one":                {"I look it up.\n<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\": \"a\"}}\n</tool_call>", []envs.ToolCall{call("find", `{"q": "a"}`)}},
		"two, in order":      {`<tool_call>{"name":"a"}</tool_call> and <tool_call>{"name":"b","arguments":{}}</tool_call>`, []envs.ToolCall{call("a", ""), call("b", "{}")}},
		"quoted arguments":   {`<tool_call>{"name":"a","arguments":"{\"x\":1}"}</tool_call>`, []envs.ToolCall{call("a", `{"x":1}`)}},
		"an id":              {`<tool_call>{"id":"7","name":"a"}</tool_call>`, []envs.ToolCall{{ID: "7", Name: "a"}}},
		"none":               {"Answer: 7", nil},
		"broken JSON":        {`<tool_call>{"name": find}</tool_call>`, nil},
		"one of two broken":  {`<tool_call>{"name":"a"}</tool_call><tool_call>?</tool_call>`, nil},
		"not closed":         {`<tool_call>{"name":"a"}`, nil},
		"no name":            {`<tool_call>{"arguments":{}}</tool_call>`, nil},
		"not an object":      {`<tool_call>["a"]</tool_call>`, nil},
		"name of wrong type": {`<tool_call>{"name":7}</tool_call>`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := make().Act(c.text)
			want := envs.Action{Text: c.text, ToolCalls: c.calls, Final: c.calls == nil}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func FuzzParseToolCalls(f *testing.F) {
	f.Add(`<tool_call>{"name":"a","arguments":"{}"}</tool_call>`)
	f.Add(`<tool_call><tool_call></tool_call>`)
	f.Fuzz(func(t *testing.T, text string) {
		calls, err := agents.ParseToolCalls(text)
		if err != nil && calls != nil {
			t.Error("calls beside an error")
		}
		for _, c := range calls {
			if c.Name == "" {
				t.Error("a call without a name")
			}
		}
	})
}
