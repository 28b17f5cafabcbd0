//go:build browser

package uitest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/browser"
)

// hiddenTab is in a window that is minimized: after a while it hangs up, and when it is seen
// again it has what happened meanwhile.
func hiddenTab(t *testing.T, w world) {
	tab := visit(t, w, w.base, "/r/"+w.run)
	const connected = `document.querySelector("header").innerText.includes("connected")`
	asked := func(what string) string {
		return `performance.getEntriesByType("resource").filter((r) => r.name.includes("` + what + `")).length`
	}
	if err := tab.See("the run", connected+" && "+asked("/series")+" > 0 && "+asked("/steps")+" > 0"); err != nil {
		t.Fatal(err, tab.Faults())
	}
	before, err := Ask[int](tab, asked("/series"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ask[bool](tab, `import(new URL("lib/stream.js", document.baseURI)).then((m) => { m.patience.hidden = 10; return true; })`); err != nil {
		t.Fatal(err)
	}
	window, err := Call(tab, browser.GetWindowForTarget, browser.GetWindowForTargetParams{})
	if err != nil {
		t.Fatal(err)
	}
	become := func(state browser.WindowState) {
		t.Helper()
		if _, err := Call(tab, browser.SetWindowBounds, browser.SetWindowBoundsParams{WindowID: window.WindowID, Bounds: &browser.Bounds{WindowState: state}}); err != nil {
			t.Fatal(err)
		}
	}
	become(browser.WindowStateMinimized)
	if err := tab.See("itself hidden, and paused", `document.visibilityState === "hidden" && document.querySelector("header").innerText.includes("paused")`); err != nil {
		t.Fatal(err, tab.Faults())
	}
	become(browser.WindowStateNormal)
	if err := tab.See("what came meanwhile", fmt.Sprintf("%s && document.visibilityState === 'visible' && %s > %d", connected, asked("/series"), before)); err != nil {
		t.Error(err)
	}
	if faults := tab.Faults(); len(faults) > 0 {
		t.Error(faults)
	}
}
