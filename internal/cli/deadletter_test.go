package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// buried makes the folder of a run that was stopped, with one dead letter.
func (p *place) buried(t *testing.T, body []byte) {
	t.Helper()
	store := filepath.Join(p.dir, "runs", "lake", "nats")
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: store, Sync: "10m"})
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
	if _, err := bus.Bury(t.Context(), conn, "lake", bus.DeadLetter{Stage: subjects.InspectStage, Reason: "malformed", Source: subjects.Run("lake").StreamName(subjects.Rollouts),
		Sequence: 1, Item: 0, ID: "t0/0/0", Data: body}); err != nil {
		t.Fatal(err)
	}
}

// TestDeadLetter_WorksOnTheFolderOfARun goes through all four commands.
func TestDeadLetter_WorksOnTheFolderOfARun(t *testing.T) {
	p := newPlace(t)
	body := []byte("\x82\xa1v\x01\xa1g\xc1")
	p.buried(t, body)
	raw := filepath.Join(p.dir, "raw")
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(append(append([]string{"deadletter"}, args...), "--dir", filepath.Join(p.dir, "runs")), &out, &errs); code != exitOK {
			t.Fatalf("%v: exit %d, %s", args, code, errs.String())
		}
		return out.String()
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", "lake"}, "t0/0/0"},
		{[]string{"show", "lake", "1", "--raw", raw}, "not decoded from byte 6 on"},
		{[]string{"requeue", "lake", "--all"}, "left as it is: message 1 of hr_lake_ROLLOUTS"},
		{[]string{"drop", "lake", "--all", "--reason", "MALFORMED"}, "dropped the bodies of 1 letters, 7 bytes"},
		{[]string{"ls", "lake"}, "no dead letters"},
		{[]string{"ls", "lake", "--dropped"}, "dropped"},
	} {
		if out := run(c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: no %q in\n%s", c.args, c.want, out)
		}
	}
	if got, err := os.ReadFile(raw); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%q, %v", got, err)
	}
	var letters []app.Letter
	if err := json.Unmarshal([]byte(run("ls", "lake", "--dropped", "--json")), &letters); err != nil || len(letters) != 1 || letters[0].Number != 1 || letters[0].Original != len(body) {
		t.Errorf("%+v, %v", letters, err)
	}
}

func TestHexdump_MarksTheLineOfTheFault(t *testing.T) {
	var out bytes.Buffer
	hexdump(&out, append(bytes.Repeat([]byte{'a'}, 20), 0xc1, 0xe9), 20)
	want := "  00000000  61 61 61 61 61 61 61 61 61 61 61 61 61 61 61 61  |aaaaaaaaaaaaaaaa|\n" +
		"> 00000010  61 61 61 61 c1 e9                                |aaaa..|\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestLetterText_SaysWhyThereIsNoBody(t *testing.T) {
	var out bytes.Buffer
	letterText(&out, &app.LetterDetail{Letter: app.Letter{Number: 7, Stage: "inspect", Source: "hr_r_ROLLOUTS", Sequence: 3, Item: -1, Reason: "malformed"}, Now: "purged"})
	for _, want := range []string{"dead letter 7", "message 3 of hr_r_ROLLOUTS", "reason: malformed", "now: purged", "buried without its body"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestDeadLetter_RefusesWhatIsUnclear(t *testing.T) {
	for _, args := range [][]string{{"deadletter"}, {"deadletter", "drop", "r"}, {"deadletter", "drop", "r", "--all", "3"}, {"deadletter", "requeue", "r", "x"},
		{"deadletter", "show", "r"}, {"deadletter", "show", "r", "0"}, {"deadletter", "ls"}} {
		var out, errs bytes.Buffer
		if code := Main(args, &out, &errs); code != exitUsage {
			t.Errorf("%v: exit %d, %s", args, code, errs.String())
		}
	}
}
