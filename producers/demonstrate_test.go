package producers_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/producers/tokenizer"
)

// gamePlayer is a player of one built-in environment with its own vocabulary.
func gamePlayer(t *testing.T, name string, kind agents.Kind) (*producers.Player, *tokenizer.Words) {
	t.Helper()
	spec := builtin.Specs()[name]
	words, err := tokenizer.NewWords(spec.Words...)
	if err != nil {
		t.Fatal(err)
	}
	template, err := tokenizer.NewChatML(words)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := agents.New(kind, spec.System)
	if err != nil {
		t.Fatal(err)
	}
	p, err := producers.New(producers.Config{Tokenizer: words, Template: template, Policy: says("unused"),
		Environments: map[string]producers.Setup{name: {Agent: agent, New: func() (envs.Environment, error) { return spec.New(nil) }}}})
	if err != nil {
		t.Fatal(err)
	}
	return p, words
}

func TestDemonstrate_ShowsTheGamesThroughTemplateAndLedger(t *testing.T) {
	for name, kind := range map[string]agents.Kind{"frozenlake": agents.Conversation, "calculator": agents.Tool} {
		t.Run(name, func(t *testing.T) {
			p, words := gamePlayer(t, name, kind)
			cfg := producers.DemoConfig{Environment: name, Episodes: 20, Skill: 1, Seed: 5}
			var out, again bytes.Buffer
			if err := p.Demonstrate(t.Context(), &out, cfg); err != nil {
				t.Fatal(err)
			}
			if err := p.Demonstrate(t.Context(), &again, cfg); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
				t.Errorf("the same configuration gives other bytes (%v)", err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 20 {
				t.Fatalf("%d lines for 20 episodes", len(lines))
			}
			for _, line := range lines {
				checkDemonstration(t, words, line)
			}
		})
	}
}

func checkDemonstration(t *testing.T, words *tokenizer.Words, line string) {
	t.Helper()
	var d producers.Demonstration
	if err := json.Unmarshal([]byte(line), &d); err != nil {
		t.Fatal(err)
	}
	if d.Reward != 1 || len(d.Mask) == 0 {
		t.Errorf("a perfect player got %v in %d actions", d.Reward, len(d.Mask))
	}
	end, _ := words.Special(tokenizer.IMEnd)
	for _, m := range d.Mask {
		if d.IDs[m[1]-1] != end {
			t.Errorf("action %q does not end its turn", words.Decode(d.IDs[m[0]:m[1]]))
		}
	}
}

func TestDemonstrate_NeedsADemonstrator(t *testing.T) {
	err := newTable(t, 3).open().Demonstrate(t.Context(), &bytes.Buffer{}, producers.DemoConfig{Environment: "room", Episodes: 1})
	if err == nil || !strings.Contains(err.Error(), "no Demonstrator") {
		t.Errorf("error %v", err)
	}
}
