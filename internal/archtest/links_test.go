package archtest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	fence = regexp.MustCompile("(?s)```.*?```")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// TestDocs_LinksLeadSomewhere: every relative link of every page.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	tree := os.DirFS("../..")
	pages := 0
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(p):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".md":
			return nil
		}
		pages++
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := fs.Stat(tree, path.Join(path.Dir(p), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", p, m[1])
			}
		}
		return nil
	})
	if err != nil || pages < 5 {
		t.Errorf("read %d pages: %v", pages, err)
	}
}
