package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md anew")

const (
	docs       = "../../docs/metrics.md"
	tableBegin = "<!-- the table: go test ./internal/metrics -update -->\n"
	tableEnd   = "<!-- the end of the table -->\n"
)

// TestDocs_HaveTheTable: docs/metrics.md lists what the code serves.
func TestDocs_HaveTheTable(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	_, after, found2 := strings.Cut(rest, tableEnd)
	if !found || !found2 {
		t.Fatalf("%s has no table", docs)
	}
	want := before + tableBegin + table() + tableEnd + after
	if string(text) == want {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not the code's: go test ./internal/metrics -update", docs)
	}
	if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sections are the sources in the order of reading.
var sections = []struct{ from, title string }{
	{FromLog, "Of the run, from its log"},
	{FromSpans, "Of the trainer, from its spans"},
	{FromBodies, "Of episodes, from their bodies"},
	{FromStreams, "Of the streams"},
	{RoleProducer, "Of a producer"},
	{RoleGrouper, "Of a grouper"},
	{RoleBridge, "Of a bridge"},
	{RoleEngine, "Of an engine"},
	{FromUI, "Of `headrace ui`"},
	{FromProcess, "Of the process that serves the page"},
}

func table() string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "\n### %s\n\n| name | type | unit | labels | gauge | what |\n|---|---|---|---|---|---|\n", s.title)
		for _, f := range among(s.from) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, f.Kind, f.unit(), f.labelText(), f.gaugeText(), f.Help)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// unit is what the name says.
func (f *Family) unit() string {
	name := strings.TrimSuffix(f.Name, "_total")
	for _, unit := range []string{"seconds", "bytes", "ratio", "tokens", "versions"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return ""
}

func (f *Family) labelText() string {
	if f.Label == "" {
		return ""
	}
	var values []string
	for _, v := range f.Values {
		values = append(values, v.Label)
	}
	if len(values) == 0 {
		return "`" + f.Label + "`"
	}
	return fmt.Sprintf("`%s`: %s", f.Label, strings.Join(values, ", "))
}

func (f *Family) gaugeText() string {
	if !f.reported() {
		return ""
	}
	if f.Prefix != "" {
		return "`" + f.Prefix + "*`"
	}
	var gauges []string
	for _, v := range f.Values {
		gauges = append(gauges, "`"+v.Gauge+"`")
	}
	return strings.Join(gauges, ", ")
}
