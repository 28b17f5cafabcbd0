package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// DefaultRoot is the folder that run folders are in, unless the user says otherwise.
const DefaultRoot = "runs"

// runDir is the folder of one run on this machine: the embedded server's
// store, weights, checkpoints, logs and the summary.
type runDir string

func (d runDir) path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

func (d runDir) store() string       { return d.path("nats") }
func (d runDir) credentials() string { return d.path("nats.json") }
func (d runDir) weights() string     { return d.path("weights") }
func (d runDir) checkpoints() string { return d.path("checkpoints") }
func (d runDir) model() string       { return d.path("model") }
func (d runDir) demos() string       { return d.path("demos.jsonl") }
func (d runDir) logs() string        { return d.path("logs") }

// feed is the socket between bridge and trainer. Socket paths are short by
// law (104 bytes on some systems), so a deep run folder moves it to the
// temporary folder.
func (d runDir) feed() string {
	p := d.path("feed.sock")
	if len(p) < 100 {
		return p
	}
	return filepath.Join(os.TempDir(), "headrace-"+filepath.Base(string(d))+"-"+strconv.Itoa(os.Getpid())+".sock")
}

// Why a run cannot be started as the user asked.
var (
	// ErrRunExists: a new run would write into an old one's folder.
	ErrRunExists = errors.New("run exists")
	// ErrNothingToResume: there is no such run, or not where it was.
	ErrNothingToResume = errors.New("nothing to resume")
)

// openRun finds or makes the folder of a run under root. Without a name a new
// run is called after the recipe with the next free number, and a resumed one
// is the recipe's latest.
func openRun(root, recipe, name string, resume bool) (subjects.Run, runDir, error) {
	if name == "" {
		latest, err := latestRun(root, recipe)
		switch {
		case err != nil:
			return "", "", err
		case resume && latest == 0:
			return "", "", fmt.Errorf("%w: %s has no run of %s", ErrNothingToResume, root, recipe)
		case !resume:
			latest++
		}
		name = recipe + "-" + strconv.Itoa(latest)
	}
	run := subjects.Run(name)
	if err := run.Validate(); err != nil {
		return "", "", err
	}
	dir, err := filepath.Abs(filepath.Join(root, name))
	if err != nil {
		return "", "", err
	}
	if !resume {
		return run, runDir(dir), makeRunDir(dir)
	}
	if _, err := os.Stat(dir); err != nil {
		return "", "", fmt.Errorf("%w: there is no folder %s (`headrace runs` lists what there is)", ErrNothingToResume, dir)
	}
	return run, runDir(dir), runDir(dir).makeFolders()
}

// makeRunDir makes the folder of a new run; of two programs that want the same
// name one gets it.
func makeRunDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return folderError(err)
	}
	if err := os.Mkdir(dir, 0o755); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: %s holds one already; go on with it by --resume, or choose another name with --run", ErrRunExists, dir)
	} else if err != nil {
		return folderError(err)
	}
	return runDir(dir).makeFolders()
}

func (d runDir) makeFolders() error {
	for _, p := range []string{d.weights(), d.checkpoints(), d.model(), d.logs()} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			return folderError(err)
		}
	}
	return nil
}

func folderError(err error) error {
	return fmt.Errorf("make run folder: %w; name another place with --dir", err)
}

// untrained reports whether no checkpoint was ever saved in the folder.
func (d runDir) untrained() bool {
	entries, err := os.ReadDir(d.checkpoints())
	return err == nil && len(entries) == 0
}

// latestRun is the highest number N of the runs called recipe-N, 0 if none.
func latestRun(root, recipe string) (int, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("look for runs: %w; name another place with --dir", err)
	}
	latest := 0
	for _, e := range entries {
		tail, ok := strings.CutPrefix(e.Name(), recipe+"-")
		if n, err := strconv.Atoi(tail); ok && err == nil {
			latest = max(latest, n)
		}
	}
	return latest, nil
}

// LocalRuns lists the runs that have a folder under root, by name.
func LocalRuns(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(root, e.Name(), "nats")); e.IsDir() && err == nil {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}
