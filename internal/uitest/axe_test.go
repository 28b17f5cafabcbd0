//go:build browser

package uitest

import (
	"os"
	"testing"
)

// axe asks axe-core, where HEADRACE_AXE names its axe.min.js, what it finds amiss on
// the page as it stands. It is not kept here: what it checks of these pages
// [Tab.Inspect] checks, too, in its own way.
func axe(t *testing.T, tab *Tab) []string {
	t.Helper()
	file := os.Getenv("HEADRACE_AXE")
	if file == "" {
		return nil
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ask[bool](tab, string(code)+"; true"); err != nil {
		t.Fatal(err)
	}
	const run = `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => "axe " + v.impact + " " + v.id + ": " + n.html.slice(0, 160) + " " + n.failureSummary.replace(/\s+/g, " ").slice(0, 200))))`
	faults, err := Ask[[]string](tab, run)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}
