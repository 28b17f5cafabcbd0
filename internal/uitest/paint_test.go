//go:build browser

package uitest

import "testing"

// firstPaint reports how soon a page shows something, cold and again.
// The bound is loose: a shared machine may be slow; the figures are in the log.
func firstPaint(t *testing.T, w world) {
	tab, end, err := NewTab(w.browser, w.base, Laptop)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, path := range []string{"/", "/r/" + w.run, "/r/" + w.run, "/r/" + w.run + "/groups", "/r/" + w.run + "/letters"} {
		if err := tab.Open(path); err != nil {
			t.Fatal(err)
		}
		if err := tab.See("a heading", `document.querySelector("h1") && performance.getEntriesByName("first-contentful-paint").length`); err != nil {
			t.Fatal(err)
		}
		paint, err := Ask[float64](tab, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-20s first paint after %4.0f ms", path, paint)
		if paint > 5000 {
			t.Errorf("%s is first painted after %.0f ms", path, paint)
		}
	}
}
