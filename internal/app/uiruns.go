package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// uiRuns finds runs for the page, as other readers do.
type uiRuns struct {
	s Source

	mu    sync.Mutex
	conn  *bus.Conn // of a bus that the user named
	sizes map[string]sized
	hash  string // of the recipe that words are of
	words *tokenizer.Words
}

// sized is what a folder took a moment ago.
type sized struct {
	bytes int64
	at    time.Time
}

const sizeHolds = 30 * time.Second

func newUIRuns(s Source) *uiRuns { return &uiRuns{s: s, sizes: map[string]sized{}} }

func (u *uiRuns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	closeQuietly(u.conn)
	u.conn = nil
}

// shared is the one connection to a bus that the user named.
func (u *uiRuns) shared(ctx context.Context) (*bus.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil {
		return u.conn, nil
	}
	options := u.s.Bus
	options.Name, options.Log = "headrace ui", u.s.Log
	var err error
	u.conn, err = bus.Connect(ctx, options)
	return u.conn, err
}

// Open connects to the bus that has the run.
func (u *uiRuns) Open(ctx context.Context, run subjects.Run) (*ui.Opened, error) {
	if u.s.Remote {
		conn, err := u.shared(ctx)
		return &ui.Opened{Conn: conn, Close: func() {}}, err
	}
	conn, done, stopped, err := u.s.openAs(ctx, run, "ui")
	if errors.Is(err, bus.ErrStoreLocked) {
		err = fmt.Errorf("%w: another reader has it for a moment; try again", err)
	}
	if errors.Is(err, errNoRun) {
		err = fmt.Errorf("%w: %w", ui.ErrNoRun, err)
	}
	if err != nil {
		return nil, err
	}
	return &ui.Opened{Conn: conn, Close: done, Stopped: stopped, Local: true, Profiles: u.s.profiles(run)}, nil
}

func (u *uiRuns) dir(run subjects.Run) runDir { return runDir(filepath.Join(u.s.Root, string(run))) }

// Live reports whether a run that was stopped is played again.
func (u *uiRuns) Live(run subjects.Run) bool {
	_, err := os.Stat(u.dir(run).credentials())
	return !u.s.Remote && err == nil
}

// Flags are what a command needs to find a run.
func (u *uiRuns) Flags(subjects.Run) string {
	switch {
	case !u.s.Remote && u.s.Root != DefaultRoot:
		return " --dir " + u.s.Root
	case u.s.Remote && u.s.Bus.URL != "":
		return " --url " + u.s.Bus.URL
	}
	return ""
}

// List is what there is.
func (u *uiRuns) List(ctx context.Context) ([]ui.Listed, error) {
	if u.s.Remote {
		return u.remote(ctx)
	}
	names, err := LocalRuns(u.s.Root)
	if err != nil {
		return nil, err
	}
	var list []ui.Listed
	for _, n := range names {
		list = append(list, u.local(ctx, n))
	}
	newestFirst(list)
	return list, nil
}

func (u *uiRuns) remote(ctx context.Context) ([]ui.Listed, error) {
	conn, err := u.shared(ctx)
	if err != nil {
		return nil, err
	}
	records, err := bus.Runs(ctx, conn)
	if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrNoStream) {
		return nil, err
	}
	var list []ui.Listed
	for i := range records {
		l := ui.Listed{Run: records[i].Run, State: "live", Where: conn.NC().ConnectedUrlRedacted(), Created: unknownTime, Reward: board.Unknown()}
		recorded(ctx, conn, &records[i], &l)
		var total int64
		for _, s := range subjects.Streams() {
			if state, err := bus.StreamState(ctx, conn, l.Run, s); err == nil {
				total += int64(state.Bytes) //nolint:gosec // of a disk
			}
		}
		l.Bytes = &total
		list = append(list, l)
	}
	newestFirst(list)
	return list, nil
}

var unknownTime = board.Unknown()

// recorded adds what a run's record and its last commit say.
func recorded(ctx context.Context, conn *bus.Conn, r *subjects.RunRecord, l *ui.Listed) {
	l.Created = board.Number(float64(r.Created) / 1e9)
	if l.End = r.Ended; l.End != "" {
		l.State = "ended"
	}
	var about struct {
		Name    string `json:"name"`
		Trainer struct {
			Steps int64 `json:"steps"`
		} `json:"trainer"`
	}
	if json.Unmarshal(r.Recipe, &about) == nil {
		l.Recipe, l.MaxSteps = about.Name, &about.Trainer.Steps
	}
	m, err := bus.Last(ctx, conn, r.Run.StreamName(subjects.Weights), r.Run.WeightsSubject(subjects.EventCommit))
	var c subjects.CommitEvent
	if err == nil && subjects.DecodeMessage(m.Data, &c) == nil {
		step := int64(c.Step)
		l.Step = &step
	}
}

// local is a run in a folder: live as its bus says, else as its summary does.
func (u *uiRuns) local(ctx context.Context, name string) ui.Listed {
	dir := u.dir(subjects.Run(name))
	size := u.size(dir)
	l := ui.Listed{Run: subjects.Run(name), State: "stopped", Where: string(dir), Bytes: &size, Created: unknownTime, Reward: board.Unknown()}
	if at := madeAt(dir, l.Run); !at.IsZero() {
		l.Created = board.Number(float64(at.UnixNano()) / 1e9)
	}
	if u.Live(l.Run) {
		options := u.s.Bus
		options.CredentialsFile, options.Name, options.Log = dir.credentials(), "headrace ui", u.s.Log
		if conn, err := bus.Connect(ctx, options); err == nil {
			defer closeQuietly(conn)
			l.State = "live"
			if r, err := bus.LookupRun(ctx, conn, l.Run); err == nil {
				recorded(ctx, conn, r, &l)
			}
			return l
		}
	}
	summarized(dir, &l)
	return l
}

// madeAt is when a run was made: as the server noted of its ledger, or else about
// when its folder was.
func madeAt(dir runDir, run subjects.Run) time.Time {
	notes, _ := filepath.Glob(filepath.Join(dir.store(), "jetstream", "*", "streams", run.StreamName(subjects.Ledger), "meta.inf")) // the pattern is one
	for _, path := range notes {
		var meta struct{ Created time.Time }
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &meta) == nil && !meta.Created.IsZero() {
			return meta.Created
		}
	}
	if info, err := os.Stat(dir.model()); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// summarized adds what the summary of a run that ended says.
func summarized(dir runDir, l *ui.Listed) {
	data, err := os.ReadFile(dir.path("summary.json"))
	var s Summary
	if err != nil || json.Unmarshal(data, &s) != nil {
		return
	}
	l.State, l.End, l.Recipe, l.Step = "ended", s.End, s.Recipe, &s.Steps
	if n := len(s.Training); n > 0 {
		last, sum := s.Training[max(0, n-10):], 0.0
		for _, r := range last {
			sum += r
		}
		l.Reward = board.Number(sum / float64(len(last)))
	}
}

// size is about what the run's log takes on disk.
func (u *uiRuns) size(dir runDir) int64 {
	u.mu.Lock()
	known, ok := u.sizes[string(dir)]
	u.mu.Unlock()
	if ok && time.Since(known.at) < sizeHolds {
		return known.bytes
	}
	var total int64
	_ = filepath.WalkDir(dir.store(), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it changes while it is looked at
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sizes[string(dir)] = sized{total, time.Now()}
	return total
}

// pieces gives the text of each token, where this build makes the run's vocabulary.
func (u *uiRuns) pieces(r *subjects.RunRecord, vocabulary string) func(int32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.words == nil || u.hash != r.Hash {
		parsed, err := recipe.Parse("run "+string(r.Run), r.Recipe)
		if err != nil {
			return nil
		}
		_, words, err := playsOf(parsed)
		if err != nil {
			return nil
		}
		u.words, u.hash = words, r.Hash
	}
	words := u.words
	if words.ID() != vocabulary {
		return nil
	}
	return func(id int32) string { return words.Decode([]int32{id}) }
}

// newestFirst orders runs for the list.
func newestFirst(list []ui.Listed) {
	slices.SortStableFunc(list, func(a, b ui.Listed) int {
		switch {
		case float64(a.Created) > float64(b.Created):
			return -1
		case float64(a.Created) < float64(b.Created):
			return 1
		}
		return 0
	})
}
