package feed

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// TestDocs_NameEverythingThatTravels keeps docs/feed.md whole: every type of
// frame and every field of every message.
func TestDocs_NameEverythingThatTravels(t *testing.T) {
	raw, err := os.ReadFile("../../docs/feed.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for k := TypeHello; k <= TypeSpans; k++ {
		if !strings.Contains(page, "**"+k.String()+"**") {
			t.Errorf("docs/feed.md does not describe %s", k)
		}
	}
	for _, m := range []any{Hello{}, Welcome{}, Paths{}, Batch{}, layout.Array{}, Group{}, Staleness{}, Release{}, Commit{},
		Checkpointed{}, Weights{}, WaitWeights{}, OK{}, Refusal{}, End{}, Notice{}, Bye{}, Clock{}, Spans{}, subjects.RowArg{}} {
		typ := reflect.TypeOf(m)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/feed.md does not name `%s` of %s", name, typ.Name())
			}
		}
	}
}
