package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// stopped makes the folder of a run whose ledger says what is given.
func (p *place) stopped(t *testing.T, entries ...*subjects.Entry) (root string) {
	t.Helper()
	root = filepath.Join(p.dir, "runs")
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: filepath.Join(root, "lake", "nats"), Sync: "10m"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	if err := app.CreateRun(t.Context(), app.Join{Bus: server.RemoteOptions(), Run: "lake", Recipe: p.recipe}, 0); err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Connect(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // all is acknowledged
	for i, e := range entries {
		data, err := subjects.EncodeMessage(e)
		if err == nil {
			_, err = bus.Append(t.Context(), conn, subjects.Run("lake").LedgerSubject(), nil, data, uint64(i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func run(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	if code := Main(args, &o, &e); code != want {
		t.Errorf("%v: exit %d, want %d: %s%s", args, code, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

func TestAudit_ExitsWithFourWhenItFindsSomething(t *testing.T) {
	p := newPlace(t)
	root := p.stopped(t, &subjects.Entry{V: 1, At: 1, Writer: "forger", Verdicts: []subjects.Verdict{{Group: "t99", Outcome: subjects.Kept}}})
	out, errs := run(t, exitCheck, "audit", "lake", "--dir", root)
	for _, want := range []string{"FAIL", "group t99 is closed and was never opened", "headrace show lake group t99", "streams"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "the audit found discrepancies") {
		t.Errorf("stderr: %s", errs)
	}
	out, _ = run(t, exitCheck, "audit", "lake", "--dir", root, "--json")
	var r audit.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.V != audit.Version || r.OK || r.Short != 1 || len(r.Discrepancies) == 0 || len(r.Checks) != 8 {
		t.Errorf("report %+v: %v", r, err)
	}
	run(t, exitFailed, "audit", "gone", "--dir", root)
	run(t, exitUsage, "audit", "--dir", root)
}

func TestRuns_SizeAndRemoval(t *testing.T) {
	p := newPlace(t)
	root := p.stopped(t)
	if out, _ := run(t, exitOK, "runs", "size", "--dir", root); !strings.Contains(out, "ROLLOUTS") || !strings.Contains(out, "32.0 GiB") || !strings.Contains(out, "folder: store") {
		t.Errorf("size:\n%s", out)
	}
	var sizes []app.RunSize
	if out, _ := run(t, exitOK, "runs", "size", "lake", "--dir", root, "--json"); json.Unmarshal([]byte(out), &sizes) != nil || len(sizes) != 1 || sizes[0].Streams[1].Limit != 32<<30 {
		t.Errorf("size as JSON:\n%s", out)
	}
	run(t, exitOK, "audit", "lake", "--dir", root)
	if _, errs := run(t, exitUsage, "runs", "rm", "lake", "--dir", root); !strings.Contains(errs, "--yes") {
		t.Errorf("removal without --yes: %s", errs)
	}
	if out, _ := run(t, exitOK, "runs", "rm", "lake", "--yes", "--dir", root); !strings.Contains(out, "run lake is gone") {
		t.Errorf("removal:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(root, "lake")); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 32 << 30: "32.0 GiB", 1 << 50: "1024.0 TiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%v bytes are %q, want %q", n, got, want)
		}
	}
}
