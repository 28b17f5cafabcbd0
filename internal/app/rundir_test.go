package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOpenRun_NumbersRunsAndResumesTheLatest(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	for _, want := range []string{"lake-1", "lake-2"} {
		run, dir, err := openRun(root, "lake", "", false)
		if err != nil || string(run) != want || filepath.Base(string(dir)) != want {
			t.Fatalf("%s in %s, %v; want %s", run, dir, err, want)
		}
	}
	if run, _, err := openRun(root, "lake", "", true); err != nil || run != "lake-2" {
		t.Errorf("resumed %s, %v", run, err)
	}
	if _, _, err := openRun(root, "lake", "lake-1", false); !errors.Is(err, ErrRunExists) {
		t.Errorf("%v, want ErrRunExists", err)
	}
	if _, _, err := openRun(root, "lake", "other", true); !errors.Is(err, ErrNothingToResume) {
		t.Errorf("%v, want ErrNothingToResume", err)
	}
}

func TestDiscard_RemovesOnlyTheFolderOfARunThatNeverWas(t *testing.T) {
	for _, c := range []struct{ made, entered, kept bool }{{true, false, false}, {true, true, true}, {false, false, true}} {
		u := &up{dir: runDir(t.TempDir()), made: c.made, entered: c.entered}
		u.discard()
		if _, err := os.Stat(string(u.dir)); (err == nil) != c.kept {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
