//go:build browser

package uitest

import "testing"

// focusedAtOnce: whoever is at the tokens the moment they are there is on the
// first of them.
func focusedAtOnce(t *testing.T, w world) {
	tab := visit(t, w, w.base, "/r/"+w.run)
	if err := tab.See("the run", see(w.run)); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask[bool](tab, `(() => {
		const seen = new MutationObserver(() => {
			const text = document.querySelector(".token-text");
			if (text) { seen.disconnect(); text.focus(); }
		});
		seen.observe(document, {childList: true, subtree: true});
		history.pushState(null, "", new URL("r/`+w.run+`/t/t0/0/0", document.baseURI));
		return dispatchEvent(new PopStateEvent("popstate"));
	})()`); err != nil {
		t.Fatal(err)
	}
	if err := tab.See("the first token, marked", `document.querySelector(".token-text b.at")?.dataset.i === "0"`); err != nil {
		t.Error(err)
	}
	if faults := tab.Faults(); len(faults) > 0 {
		t.Error(faults)
	}
}
