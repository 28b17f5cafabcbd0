//go:build browser

package uitest

import (
	"encoding/json"
	"fmt"
	"testing"
)

// mostTabs is after how many presses of Tab a main action must have had the focus.
const mostTabs = 400

// tabbed goes through the page with the Tab key alone and names what of the main
// actions it never came to, and what of it cannot be seen to have the focus.
func tabbed(t *testing.T, tab *Tab, actions []string) []string {
	t.Helper()
	if len(actions) == 0 {
		return nil
	}
	list, _ := json.Marshal(actions)
	start := fmt.Sprintf(`(() => {
		document.activeElement?.blur();
		getSelection().removeAllRanges();
		window.reached = {list: %s, missing: new Set(%s), blind: "", count: 0};
		window.reach = () => {
			const el = document.activeElement, style = getComputedStyle(el);
			reached.count++;
			for (const css of reached.missing) if (el.matches(css)) reached.missing.delete(css);
			if (el !== document.body && !el.matches("main, h1") && style.outlineStyle === "none" && style.boxShadow === "none") reached.blind ||= el.outerHTML.slice(0, 120);
		};
		document.addEventListener("focusin", reach);
		return true;
	})()`, list, list)
	if _, err := Ask[bool](tab, start); err != nil {
		t.Fatal(err)
	}
	for range mostTabs {
		if err := tab.Press(Tabulator); err != nil {
			t.Fatal(err)
		}
		if done, err := Ask[bool](tab, `reached.missing.size === 0`); err != nil {
			t.Fatal(err)
		} else if done {
			break
		}
	}
	faults, err := Ask[[]string](tab, `(() => {
		document.removeEventListener("focusin", reach);
		const out = [...reached.missing].map((css) => "the Tab key never comes to " + css);
		if (reached.blind) out.push("the focus cannot be seen on " + reached.blind);
		scrollTo(0, 0);
		return out;
	})()`)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}
