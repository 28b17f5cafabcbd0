package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/grouper"
)

func TestLoadPolicy_ChangesWhatItNames(t *testing.T) {
	own := grouper.Config{GroupSize: 8, GroupsPerBatch: 4, Steps: 10, GroupDeadline: time.Minute, ZeroVariance: grouper.PolicyDrop}.WithDefaults()
	for text, want := range map[string]func(grouper.Config) bool{
		"group_size: 4": func(c grouper.Config) bool {
			return c.GroupSize == 4 && c.MinGroupSize == 4 && c.GroupsPerBatch == 4 && c.ZeroVariance == grouper.PolicyDrop
		},
		"grouper: {group_deadline: 2m}": func(c grouper.Config) bool { return c.SlotTimeout == time.Minute && c.GroupSize == 8 },
		"max_staleness: 0":              func(c grouper.Config) bool { return *c.MaxStaleness == 0 && *own.MaxStaleness == 1 },
	} {
		file := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := LoadPolicy(file, own); err != nil || !want(p) {
			t.Errorf("%s gives %+v, %v", text, p, err)
		}
	}
	for text, want := range map[string]string{"group_sise: 4": "group_sise", "group_size: 1": "p.yaml:1: group_size", "": "want one YAML document", "- 3": "p.yaml"} {
		file := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadPolicy(file, own); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: says %v, want %q", text, err, want)
		}
	}
}
