package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// exportable makes the folder of a stopped run with a group of four.
func (p *place) exportable(t *testing.T) (root string) {
	t.Helper()
	root = p.stopped(t)
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: filepath.Join(root, "lake", "nats"), Port: -1, Sync: "10m"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	conn, err := bus.Connect(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // all is acknowledged
	pub := bus.NewPublisher(conn, bus.PublisherConfig{Run: "lake", Producer: "p"})
	v := subjects.Verdict{Group: "t0", Outcome: subjects.Kept, Opened: 1, Closed: 2}
	for slot := range 4 {
		tr := &subjects.Trajectory{Kind: subjects.Train, Group: "t0", Slot: subjects.Slot(slot), Environment: "frozenlake", Producer: "p",
			Status: subjects.Succeeded, Reward: float64(slot), Sampling: subjects.Sampling{Temperature: 1},
			Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2, 3}, Logprobs: []float32{-0.5},
				Versions: []subjects.VersionSpan{{Start: 2, End: 3}}, LossMask: []subjects.Span{{Start: 2, End: 3}}}},
			Messages: []subjects.Message{{Role: "user", Content: "où?"}, {Role: "assistant", Content: []string{"là", "ici", "où", "là-bas"}[slot]}}}
		at, err := pub.Publish(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		v.Members = append(v.Members, subjects.Member{Slot: tr.Slot, Seq: at.Seq, Index: at.Index, Status: tr.Status, Reward: tr.Reward, Segments: 1, Tokens: 3, Longest: 3})
	}
	data, err := subjects.EncodeMessage(&subjects.Entry{V: 1, At: 1, Writer: "g", Verdicts: []subjects.Verdict{v}})
	if err == nil {
		_, err = bus.Append(t.Context(), conn, subjects.Run("lake").LedgerSubject(), nil, data, 0)
	}
	if err == nil {
		err = pub.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestExport_ComesBackAsARun(t *testing.T) {
	p := newPlace(t)
	root, dir := p.exportable(t), t.TempDir()
	first, second := filepath.Join(dir, "a.jsonl.zst"), filepath.Join(dir, "b.jsonl.zst")
	out, _ := run(t, exitOK, "export", "lake", "--dir", root, "-o", first)
	if !strings.Contains(out, "4 trajectories of run lake, 5 rows") || !strings.Contains(out, "sha256 ") {
		t.Error(out)
	}
	out, _ = run(t, exitOK, "import", first, "--run", "copy", "--dir", root)
	if !strings.Contains(out, "run copy has the 4 trajectories") {
		t.Error(out)
	}
	run(t, exitOK, "export", "copy", "--dir", root, "-o", second)
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Error("the copy's export is not the origin's", errA, errB)
	}
	for _, c := range []struct{ args, want string }{
		{"show copy group t0 --dir " + root, "kept"},
		{"show copy trajectory t0/1/0 --dir " + root, "ici"},
		{"show copy --dir " + root, "imported"},
		{"audit copy --dir " + root, "the run was imported"},
		{"runs --dir " + root, "copy"},
		{"export copy --format openai -o - --status succeeded --group t0 --dir " + root, `"content":"où?"`},
		{"export copy --format preference -o - --dir " + root, `"chosen_reward":3`},
		{"export copy --json --step 1..2 --format atif -o " + filepath.Join(dir, "x") + " --dir " + root, `"filtered": 4`},
	} {
		if out, _ := run(t, exitOK, strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q", c.args, out, c.want)
		}
	}
}

func TestExport_MistakesSayWhatToDo(t *testing.T) {
	p := newPlace(t)
	root := p.exportable(t)
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{\"headrace_export\":1,\"run\":\"x\",\"recipe\":{}}\n{\"id\":\"x\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"export lake --format csv", exitUsage, "want one of jsonl parquet"},
		{"export lake --step 2..1", exitUsage, "want N or N..M"},
		{"export lake --kind x", exitUsage, "want train or eval"},
		{"export lake --status x", exitUsage, "want succeeded"},
		{"export none -o -", exitFailed, "headrace runs"},
		{"export lake -o " + bad, exitFailed, "exists"},
		{"import " + bad, exitUsage, "--run"},
		{"import " + bad + " --run lake", exitUsage, "choose another name"},
		{"import " + bad + " --run new", exitFailed, "line 2"},
		{"import " + bad + ".not --run new", exitFailed, "no such file"},
	} {
		if _, errs := run(t, c.code, append(strings.Fields(c.args), "--dir", root)...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: %q, want %q", c.args, errs, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "new")); err == nil {
		t.Error("a failed import left a folder")
	}
}

func TestImport_OntoABus(t *testing.T) {
	p := newPlace(t)
	root, dir := p.exportable(t), t.TempDir()
	first, second := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl")
	run(t, exitOK, "export", "lake", "--dir", root, "-o", first)
	server := natstest.Loopback(t)
	url := server.URL()
	t.Setenv("NATS_USER", server.RemoteOptions().User)
	t.Setenv("NATS_PASSWORD", server.RemoteOptions().Password)
	run(t, exitOK, "import", first, "--run", "copy", "--url", url)
	run(t, exitOK, "export", "copy", "--url", url, "-o", second)
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Error("the copy's export is not the origin's", errA, errB)
	}
	if _, errs := run(t, exitUsage, "import", first, "--run", "copy", "--url", url); !strings.Contains(errs, "choose another name") {
		t.Error(errs)
	}
	if err := os.WriteFile(second, append(a, "{}\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, exitFailed, "import", second, "--run", "broken", "--url", url)
	if out, _ := run(t, exitOK, "runs", "--url", url); !strings.Contains(out, "copy") || strings.Contains(out, "broken") {
		t.Error(out)
	}
}

func TestImport_ATIFOfOthersHasNoRecipe(t *testing.T) {
	p := newPlace(t)
	root, file := filepath.Join(p.dir, "runs"), filepath.Join(p.dir, "t.json")
	p.write(t, file, `{"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "x", "version": "1"},
		"steps": [{"step_id": 1, "source": "user", "message": "où?"}, {"step_id": 2, "source": "agent", "message": "là"}]}`)
	run(t, exitOK, "import", file, "--run", "other", "--dir", root)
	if out, _ := run(t, exitOK, "show", "other", "trajectory", "a0/0/0", "--dir", root); !strings.Contains(out, "là") {
		t.Error(out)
	}
	if out, _ := run(t, exitOK, "export", "other", "--format", "openai", "-o", "-", "--dir", root); !strings.Contains(out, `{"role":"assistant","content":"là"}`) {
		t.Error(out)
	}
	for _, command := range []string{"show", "audit"} {
		if _, errs := run(t, exitFailed, command, "other", "--dir", root); !strings.Contains(errs, "imported without a recipe") {
			t.Error(errs)
		}
	}
}
