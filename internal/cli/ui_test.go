package cli

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/subjects"
)

// TestUI_AMistakeIsSaidBeforeAnythingIsServed: none of these serves a page.
func TestUI_AMistakeIsSaidBeforeAnythingIsServed(t *testing.T) {
	p := newPlace(t)
	root := p.stopped(t, &subjects.Entry{V: 1, Writer: "g1"})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"a", "b"}, exitUsage, "takes a run, or none"},
		{[]string{"UPPER"}, exitUsage, "run name"},
		{[]string{"--listen", "here"}, exitUsage, "an address and a port"},
		{[]string{"--base-path", "/a b/"}, exitUsage, "plain names"},
		{[]string{"--base-path", "/../x"}, exitUsage, "plain names"},
		{[]string{"--public", "box"}, exitFailed, "one for a browser"},
		{[]string{"nowhere"}, exitFailed, "no run nowhere"},
		{[]string{"lake", "--listen", "127.0.0.1:99999"}, exitFailed, "0 to 65535"},
	} {
		_, errs := run(t, c.code, append([]string{"ui", "--dir", root}, c.args...)...)
		if !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("ui %v: %q, want one line with %q", c.args, errs, c.want)
		}
	}
	t.Setenv("HEADRACE_UI_TOKEN", "short")
	if _, errs := run(t, exitFailed, "ui", "--dir", root, "--listen", "127.0.0.1:0"); !strings.Contains(errs, "at least 16") {
		t.Errorf("%q", errs)
	}
}
