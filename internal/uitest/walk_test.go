//go:build browser

package uitest

import (
	"fmt"
	"testing"
)

// stop is one page of the walk: how one gets there, what one sees, and what one
// can do there by keyboard.
type stop struct {
	name  string
	reach func(*Tab) error
	see   string   // a JavaScript expression that is true once the page is there
	keys  []string // CSS selectors of the main actions, which Tab must come to
}

// walk is what somebody does who looks for the reason of a bad reward.
func walk(run string) []stop {
	return []stop{
		{"runs", func(t *Tab) error { return t.Open("/") },
			see("Runs") + ` && document.querySelector("main table tbody a")`, []string{"main table tbody a", "header [aria-label=Theme] button"}},
		{"run", func(t *Tab) error { return t.Click("main table tbody a") },
			see(run) + ` && document.querySelectorAll("main .grid section").length > 5`, []string{"nav a", "main .actions button"}},
		{"trace panel", func(t *Tab) error { return t.Click("main .actions button") },
			`document.querySelector("main .trace")`, nil},
		{"groups", func(t *Tab) error { return t.Click(`nav a[href$="/groups"]`) },
			see("Groups") + rows(1), []string{"#search", ".filters select", ".group-list a"}},
		{"groups by keys", func(t *Tab) error { return t.Press("j", "j", "k", "j", Enter) },
			see("Group "), []string{".column h3 a"}},
		{"groups again", func(t *Tab) error { return t.Click(`nav a[href$="/groups"]`) },
			see("Groups") + rows(2), nil},
		{"groups filtered", filter,
			`location.search.includes("outcome=kept")` + rows(1) + ` && [...document.querySelectorAll(".group-list .badge")].every((b) => b.textContent === "kept")`, []string{".chips button"}},
		{"groups searched", func(t *Tab) error { return search(t, "answer") },
			`location.search.includes("q=answer") && document.querySelector(".group-list mark")`, nil},
		{"group", func(t *Tab) error { return t.Click(".group-list a.open") },
			see("Group ") + ` && document.querySelector(".column .talk")`, []string{".column h3 a", ".column .pick input"}},
		{"compared", compare,
			see("Compare two") + ` && document.querySelector(".turn-diff, .versus")`, []string{"main .lead a"}},
		{"trajectory", func(t *Tab) error { return t.Click("main .lead a") },
			see("Trajectory ") + ` && document.querySelector(".token-text b, .segment")`, []string{"input[name=token-mode]", ".token-text", ".timeline button", "summary"}},
		{"tokens by logprob", tokens,
			`document.querySelector(".token-text b.at") && document.querySelector(".token-text b[class^=p]")`, nil},
		{"tokens by version", func(t *Tab) error { return t.Click("input[value=version]") },
			`document.querySelector(".token-text b[class^=v]")`, nil},
		{"dead letters", func(t *Tab) error { return t.Click(`nav a[href$="/letters"]`) },
			see("Dead letters") + ` && document.querySelector("main table tbody a")`, []string{"main table tbody a"}},
		{"dead letter", func(t *Tab) error { return t.Click("main table tbody a") },
			see("Dead letter ") + ` && document.querySelector("main .stack")`, []string{".copy"}},
		{"other theme", func(t *Tab) error { return t.Click(`header [aria-label=Theme] button[aria-pressed=false][title=Dark]`) },
			`document.documentElement.dataset.theme === "dark" && getComputedStyle(document.documentElement).colorScheme === "dark"`, nil},
		{"theme of the system", func(t *Tab) error { return t.Click(`header [aria-label=Theme] button:nth-of-type(2)`) },
			`!document.documentElement.dataset.theme && localStorage.getItem("headrace-theme") === "auto"`, nil},
		{"nowhere", func(t *Tab) error { return t.Open("/no/such/page") }, see("No such page"), []string{"main a"}},
	}
}

// see is true where the page's heading begins so.
func see(heading string) string {
	return fmt.Sprintf(`document.querySelector("h1")?.textContent.startsWith(%q)`, heading)
}

func rows(n int) string {
	return fmt.Sprintf(` && document.querySelectorAll(".group-list a.open").length >= %d && !document.querySelector(".group-list[aria-busy=true]")`, n)
}

func filter(t *Tab) error {
	return choose(t, ".filters label:nth-of-type(2) select", "kept")
}

// choose picks an option of a list as a user would: the browser says change.
func choose(t *Tab, selector, value string) error {
	_, err := Ask[bool](t, fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q; return s.dispatchEvent(new Event("change", {bubbles: true})); })()`, selector, value))
	return err
}

func search(t *Tab, text string) error {
	if err := t.Click("#search"); err != nil {
		return err
	}
	return t.Press(text)
}

// compare picks two trajectories; on a phone the second is behind its button.
func compare(t *Tab) error {
	if err := t.Click(".column .pick input:not(:checked)"); err != nil {
		return err
	}
	narrow, err := Ask[bool](t, `getComputedStyle(document.querySelector(".switcher")).display !== "none"`)
	if err != nil {
		return err
	}
	if narrow {
		if err := t.Click(".switcher button:nth-of-type(2)"); err != nil {
			return err
		}
	}
	next := ".column:nth-child(2) .pick input"
	if err := t.Click(next); err != nil {
		return err
	}
	return t.Click(".compare a")
}

// tokens colours by logprob and walks from token to token by keyboard.
func tokens(t *Tab) error {
	if err := t.Click("input[value=logprob]"); err != nil {
		return err
	}
	if _, err := Ask[bool](t, `(document.querySelector(".token-text").focus(), true)`); err != nil {
		return err
	}
	return t.Press(Right, Right, End)
}

// walkedAsAUser goes through every page by clicking, in both themes
// and on a phone, and fails on anything a user or a developer would frown at.
func walkedAsAUser(t *testing.T, w world) {
	dusk := Phone
	dusk.Theme = "dark"
	for name, v := range map[string]View{"light": Laptop, "dark": Night, "phone": Phone, "phone in the dark": dusk} {
		t.Run(name, func(t *testing.T) { walkIn(t, w, v, walk(w.run)) })
	}
	t.Run("odd trajectories", func(t *testing.T) { walkIn(t, w, dusk, oddities(w.run)) })
}

func walkIn(t *testing.T, w world, v View, stops []stop) {
	tab, end, err := NewTab(w.browser, w.base, v)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, s := range stops {
		if err := s.reach(tab); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if err := tab.See(s.name, s.see); err != nil {
			picture(t, tab, s.name)
			t.Fatalf("%s: %v; %v", s.name, err, tab.Faults())
		}
		faults, err := tab.Inspect()
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		faults = append(faults, axe(t, tab)...)
		for _, fault := range append(faults, tabbed(t, tab, s.keys)...) {
			t.Errorf("%s (%s): %s", s.name, tab.Path(), fault)
		}
		picture(t, tab, s.name)
	}
}
