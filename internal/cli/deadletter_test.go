package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/app"
)

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
