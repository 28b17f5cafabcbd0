package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

const smallRun = "{name: lake, environment: {name: frozenlake}, trainer: {steps: 4}, retention: {rollouts: 4194304, keep: checkpoint, steps: 3}}"

// folderRun makes the folder of a stopped run.
func folderRun(t *testing.T) (s Source, dir string) {
	t.Helper()
	s = Source{Root: t.TempDir(), Log: zerolog.Nop()}
	dir = filepath.Join(s.Root, string(testRun))
	srv := natstest.Start(t, bus.ServerOptions{StoreDir: filepath.Join(dir, "nats"), Port: -1, Sync: "10m"})
	conn, err := bus.Connect(t.Context(), srv.Options())
	if err != nil {
		t.Fatal(err)
	}
	r, err := recipe.Parse("lake.yaml", []byte(smallRun))
	if err == nil {
		err = bus.EnsureStreams(t.Context(), conn, testRun, r.StreamOptions())
	}
	if err == nil {
		err = createRecord(t.Context(), conn, testRun, r)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "checkpoints"), 0o755)
	}
	for _, sub := range []string{"weights", "logs"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "checkpoints", "x"), make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	srv.Shutdown()
	return s, dir
}

func TestSize_OfAStoppedRun(t *testing.T) {
	s, _ := folderRun(t)
	size, err := Size(t.Context(), s, testRun)
	if err != nil {
		t.Fatal(err)
	}
	if len(size.Streams) != 6 || size.Streams[1].Stream != "ROLLOUTS" || size.Streams[1].Limit != 4<<20 {
		t.Errorf("streams %+v", size.Streams)
	}
	if size.Folder["checkpoints"] != 1000 || size.Folder["all"] <= 1000 || size.Free == 0 || size.FullIn != 0 {
		t.Errorf("size %+v", size)
	}
}

func TestAudit_OfAnEmptyStoppedRunPasses(t *testing.T) {
	s, _ := folderRun(t)
	r, err := Audit(t.Context(), s, testRun, audit.Options{})
	if err != nil || !r.OK {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestRemove_TakesStoppedRunsAndSparesLiveOnes(t *testing.T) {
	s, dir := folderRun(t)
	removed, err := Remove(t.Context(), s, testRun, RemoveOptions{})
	if err != nil || removed.Folder != dir {
		t.Fatalf("%+v: %v", removed, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}

	m := newMember(t, smallRun)
	if _, err := bus.Send(t.Context(), m.conn, testRun.TelemetrySubject("grouper", "g1"), "report", nil, gaugesOf(t, "grouper", "g1")); err != nil {
		t.Fatal(err)
	}
	if who, err := playedBy(t.Context(), m.conn, testRun); err != nil || who != "grouper g1" {
		t.Errorf("played by %q: %v", who, err)
	}
}

func gaugesOf(t *testing.T, role, instance string) []byte {
	t.Helper()
	data, err := subjects.EncodeMessage(&subjects.Gauges{V: 1, Role: role, Instance: instance})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
