//go:build browser

package uitest

import (
	"net/http"
	"testing"

	"github.com/headrace/headrace/consumers/ui"
)

// behindAProxy: under another base path, and with a token that the address has
// once and the browser then keeps.
func behindAProxy(t *testing.T, w world) {
	const token = "a-token-of-some-length"
	base := w.serve(t, ui.Options{Base: "/box/headrace/", Token: token, Hosts: []string{"127.0.0.1"}})
	refused, err := http.Get(base + "/box/headrace/r/" + w.run)
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if refused.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token the status is %d", refused.StatusCode)
	}
	tab, end, err := NewTab(w.browser, base, Laptop)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for _, s := range []struct {
		do  func() error
		see string
	}{
		{func() error { return tab.Open("/box/headrace/r/" + w.run + "/groups?token=" + token + "&outcome=kept") }, see("Groups") + rows(2) + ` && !location.href.includes("token")`},
		{func() error { return tab.Click(".group-list a.open") }, see("Group ") + ` && document.querySelector(".column .talk")`},
		{func() error { return tab.Click(".column h3 a") }, see("Trajectory ") + ` && document.querySelector(".token-text b")`},
		{func() error { _, err := Ask[bool](tab, `(history.back(), true)`); return err }, see("Group ")},
		{func() error { return tab.Click("header .logo") }, see("Runs") + ` && location.pathname === "/box/headrace/"`},
	} {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		if err := tab.See("the page", s.see); err != nil {
			t.Fatal(err, tab.Faults())
		}
	}
	for _, fault := range tab.Faults() {
		t.Error(fault)
	}
}
