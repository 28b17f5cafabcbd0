package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/bus"
)

func TestFits_SaysWhoseTheCredentialsAre(t *testing.T) {
	p01 := bus.Identity{Name: "p01", Role: "producer", Run: "demo"}
	admin := bus.Identity{Name: "admin", Role: "admin"}
	for _, c := range []struct {
		id      bus.Identity
		command string
		run     string
		says    []string // nil: they fit
	}{
		{p01, "produce", "demo", nil},
		{p01, "produce", "other", []string{"p01 (producer of run demo)", "run other"}},
		{p01, "group", "demo", []string{"p01 (producer of run demo)", "headrace group", "role grouper"}},
		{p01, "runs create", "demo", []string{"role admin"}},
		{admin, "runs create", "demo", nil},
		{admin, "bridge", "demo", nil},
		{bus.Identity{}, "bridge", "demo", nil},
		{bus.Identity{Name: "somebody"}, "engine", "demo", nil},
	} {
		t.Run(fmt.Sprint(c.id, c.command, c.run), func(t *testing.T) {
			err := fits(c.id, c.command, "demo")
			if c.run != "demo" {
				err = fits(c.id, c.command, "other")
			}
			if (err == nil) != (c.says == nil) {
				t.Fatalf("error %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
	if speaks(p01, "p01") != nil || speaks(p01, "p02") == nil || speaks(admin, "x") != nil || speaks(bus.Identity{Name: "x"}, "y") != nil {
		t.Error("a credential with a role speaks under its own name alone")
	}
}
