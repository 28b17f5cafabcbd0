package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

const deployed = "../../deploy/observability/"

var headraceName = regexp.MustCompile(`headrace_[a-z_]+`)

// exists reports whether a name in a query is a series of the table.
func exists(name string) bool {
	for _, f := range Families() {
		switch {
		case f.Kind != Histogram && name == f.Name,
			f.Kind == Histogram && (name == f.Name+"_bucket" || name == f.Name+"_sum" || name == f.Name+"_count"):
			return true
		}
	}
	return false
}

// TestDeployed_AsksOnlyForWhatThereIs: every metric of the dashboard and of the alerts.
func TestDeployed_AsksOnlyForWhatThereIs(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(deployed + "grafana/dashboards/headrace.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			queries++
			if !strings.Contains(q.Expr, "headrace") {
				t.Errorf("panel %q asks for nothing of ours: %s", p.Title, q.Expr)
			}
			for _, name := range headraceName.FindAllString(q.Expr, -1) {
				if !exists(name) {
					t.Errorf("panel %q asks for %s, which no page has", p.Title, name)
				}
			}
		}
	}
	if queries < 40 {
		t.Errorf("found %d queries: not the dashboard", queries)
	}
	alerts, err := os.ReadFile(deployed + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := headraceName.FindAllString(string(alerts), -1)
	for _, name := range names {
		if !exists(name) {
			t.Errorf("an alert asks for %s, which no page has", name)
		}
	}
	if len(names) < 10 {
		t.Errorf("found %d names in the alerts", len(names))
	}
}
