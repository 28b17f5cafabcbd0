//go:build browser

package uitest

import "testing"

// addresses are typed into one tab, more of them than a browser has connections to
// a server: a page that was left and listens on would keep the next from loading.
func addresses(t *testing.T, w world) {
	const there = `!document.querySelector("main").innerText.includes("Loading") && document.querySelector("header").innerText.includes("connected")`
	tab := visit(t, w, w.base, "/")
	for range 3 {
		for _, path := range []string{"/r/" + w.run, "/r/" + w.run + "/letters", "/r/" + w.run + "/groups"} {
			if err := tab.Open(path); err != nil {
				t.Fatal(err)
			}
			if err := tab.See("the page", there); err != nil {
				t.Fatal(err, tab.Faults())
			}
		}
	}
	// A page that is kept for "back" hears these two; the driver loses sight of a real one.
	const kept = `(() => { for (const e of ["pagehide", "pageshow"]) dispatchEvent(new PageTransitionEvent(e, {persisted: true})); return true; })()`
	const connections = `performance.getEntriesByType("resource").filter((r) => r.name.endsWith("/events")).length`
	if _, err := Ask[bool](tab, kept); err != nil {
		t.Fatal(err)
	}
	if err := tab.See("a second connection", connections+" > 0 && "+there); err != nil { // the first one's entry comes with its end
		t.Error(err)
	}
	if faults := tab.Faults(); len(faults) > 0 {
		t.Error(faults)
	}
}
