package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
)

// TestProduce_RefusesAnEngineThatGivesNoIdsOrLogprobs: what it would send could
// not be trained on, and nobody would notice for a long time.
func TestProduce_RefusesAnEngineThatGivesNoIdsOrLogprobs(t *testing.T) {
	for _, c := range []struct {
		name, says string
		spoil      func(answer map[string]any)
	}{
		{"no ids", "ids", func(a map[string]any) { delete(a, "output_ids") }},
		{"no logprobs", "logprobs", func(a map[string]any) { delete(a["meta_info"].(map[string]any), "output_token_logprobs") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, ctx := newMember(t, malformedRecipe), limited(t)
			engine := sglangtest.Start(t, "0")
			engine.Answer = func(w http.ResponseWriter, _ *http.Request, q sglangtest.Request) bool {
				answer := sglangtest.Good(q, engine.Tokens, "0")
				c.spoil(answer)
				return json.NewEncoder(w).Encode(answer) == nil
			}
			if err := bus.PutEngine(ctx, m.conn, m.run, &subjects.EngineRecord{V: 1, Engine: "mute", URL: engine.URL, Ready: true}); err != nil {
				t.Fatal(err)
			}
			err := m.produce(ctx, ProduceOptions{Name: "p"})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "mute") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line that names the engine and %s", err, c.says)
			}
		})
	}
}
