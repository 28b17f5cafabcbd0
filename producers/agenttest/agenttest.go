// Package agenttest is the conformance suite of agents: every one, built in or
// yours, passes it before a [producers.Player] may drive it.
package agenttest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers"
)

// Run checks the contract of [producers.Agent].
func Run(t *testing.T, make func() producers.Agent) {
	t.Run("FirstViewIsWholeAndShowsTheObservation", func(t *testing.T) { firstView(t, make) })
	t.Run("LaterViewsShowTheObservation", func(t *testing.T) { laterViews(t, make) })
	t.Run("AnyWordsAreAnAction", func(t *testing.T) { anyWords(t, make) })
	t.Run("InstancesShareNothing", func(t *testing.T) { separate(t, make) })
}

func observation(text string) envs.Observation {
	return envs.Observation{Messages: []envs.Message{{Role: envs.RoleUser, Content: text}}}
}

func shows(v producers.View, text string) bool {
	return slices.ContainsFunc(v.Messages, func(m envs.Message) bool { return strings.Contains(m.Content, text) })
}

func firstView(t *testing.T, make func() producers.Agent) {
	v := make().Observe(observation("alpha"))
	if !v.Whole {
		t.Error("the first view is not whole")
	}
	if !shows(v, "alpha") {
		t.Errorf("the observation is not shown: %+v", v)
	}
}

func laterViews(t *testing.T, make func() producers.Agent) {
	a := make()
	a.Observe(observation("alpha"))
	for _, text := range []string{"beta", "gamma"} {
		a.Act("words")
		if v := a.Observe(observation(text)); !shows(v, text) {
			t.Errorf("observation %s is not shown: %+v", text, v)
		}
	}
}

func anyWords(t *testing.T, make func() producers.Agent) {
	for _, text := range []string{"", "\x00\xff", "<|im_end|>", "<tool_call>", "<tool_call>{}</tool_call>",
		"</tool_call><tool_call>", strings.Repeat("<tool_call>", 10_000), strings.Repeat("[", 100_000)} {
		a := make()
		a.Observe(observation("alpha"))
		action := a.Act(text)
		if action.Text != text {
			t.Errorf("action of %.40q lost its text: %.40q", text, action.Text)
		}
		for _, c := range action.ToolCalls {
			if len(c.Arguments) > 0 && !json.Valid(c.Arguments) {
				t.Logf("%.40q: arguments are no JSON, which the environment must judge", text)
			}
		}
	}
}

func separate(t *testing.T, make func() producers.Agent) {
	one, two := make(), make()
	one.Observe(observation("alpha"))
	if v := two.Observe(observation("beta")); !v.Whole || shows(v, "alpha") {
		t.Errorf("a second instance starts from the first one's conversation: %+v", v)
	}
}
