package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func TestTrace_OfAStoppedRunIsAFile(t *testing.T) {
	const at = 1_750_000_000_000_000_000
	p := newPlace(t)
	root := p.stopped(t, &subjects.Entry{V: 1, At: at + 2e9, Writer: "g1",
		Verdicts: []subjects.Verdict{{Group: "t0", Outcome: subjects.Kept, Opened: at, Closed: at + 1e9}},
		Batches:  []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{{Group: "t0", Environment: "lake"}}}}})
	path := filepath.Join(p.dir, "out.pftrace")
	out, _ := run(t, exitOK, "trace", "lake", "--dir", root, "--step", "1", "-o", path)
	if !strings.Contains(out, "1 groups, 0 steps") || !strings.Contains(out, "ui.perfetto.dev") {
		t.Errorf("%s", out)
	}
	out, _ = run(t, exitOK, "trace", "lake", "--dir", root, "--step", "1..3", "-o", path, "--json")
	var r app.TraceReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Run != "lake" || r.Groups != 1 || r.From.UnixNano() != at {
		t.Errorf("%+v, %v", r, err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != r.Bytes || r.Bytes == 0 {
		t.Errorf("the file: %v, want %d bytes", err, r.Bytes)
	}
	_, errs := run(t, exitFailed, "trace", "lake", "--dir", root, "--step", "7", "-o", path)
	if !strings.Contains(errs, "no batch of steps 7 to 7") {
		t.Errorf("%s", errs)
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("files %v: a trace that was not written leaves nothing, and the one before", left)
	}
}

func TestTrace_RefusesWhatIsNoWindow(t *testing.T) {
	for _, args := range [][]string{{"--step", "0"}, {"--step", "5..4"}, {"--step", "a"}, {"--last", "0s"}, {"--last", "5s", "--step", "4"}} {
		run(t, exitUsage, append([]string{"trace", "lake"}, args...)...)
	}
}
