package cli

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAuth_MakesAddsRevokesAndListsWithoutASecretOnTheScreen.
func TestAuth_MakesAddsRevokesAndListsWithoutASecretOnTheScreen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	var all bytes.Buffer
	run := func(code int, args ...string) string {
		t.Helper()
		var out, err bytes.Buffer
		if got := Main(args, &out, &err); got != code {
			t.Errorf("%v: exit code %d, want %d: %s", args, got, code, err.String())
		}
		all.Write(out.Bytes())
		all.Write(err.Bytes())
		return out.String()
	}
	run(exitUsage, "auth", "init", dir)
	if text := run(exitOK, "auth", "init", dir, "--run", "demo", "--producers", "2", "--host", "nats"); !strings.Contains(text, "nats.conf") {
		t.Error(text)
	}
	run(exitUsage, "auth", "add", "producer", "p03", dir)
	run(exitUsage, "auth", "add", "king", "p03", dir, "--run", "demo")
	if text := run(exitOK, "auth", "add", "producer", "p03", dir, "--run", "demo"); !strings.Contains(text, "p03.creds") || !strings.Contains(text, "SIGHUP") {
		t.Error(text)
	}
	run(exitOK, "auth", "revoke", "p01", dir)
	run(exitFailed, "auth", "revoke", "p01", dir)
	var list []struct {
		Name, Role string
		Revoked    *string
	}
	if err := json.Unmarshal([]byte(run(exitOK, "auth", "ls", dir, "--json")), &list); err != nil || len(list) != 8 {
		t.Errorf("%v, %v", list, err)
	}
	if text := run(exitOK, "auth", "ls", dir); !strings.Contains(text, "revoked") || !strings.Contains(text, "trainer") {
		t.Error(text)
	}
	seed := regexp.MustCompile(`S[UAON][A-Z2-7]{56}`)
	found := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, s := range seed.FindAllString(string(b), -1) {
			found++
			if strings.Contains(all.String(), s) {
				t.Errorf("a secret of %s was printed", path)
			}
		}
		return err
	})
	if err != nil || found < 10 || seed.MatchString(all.String()) || strings.Contains(all.String(), "PRIVATE KEY") {
		t.Errorf("%d secrets, %v", found, err)
	}
}
