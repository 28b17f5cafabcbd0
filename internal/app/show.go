package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Source is where a run is looked at: a bus, or a run folder on this machine.
type Source struct {
	Bus  bus.Options
	Root string // of run folders
	// Remote is set when the user named a bus: run folders are left alone.
	Remote bool
	Log    zerolog.Logger
}

// RunInfo is one line of `headrace runs`.
type RunInfo struct {
	Run     string    `json:"run"`
	Recipe  string    `json:"recipe,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Where   string    `json:"where"` // bus URL or folder
	Live    bool      `json:"live"`  // it is on a bus that answers
}

// open connects to the bus that has the run: the one that was named, or the
// server of the run's folder, live or started for the purpose.
func (s Source) open(ctx context.Context, run subjects.Run) (*bus.Conn, func(), error) {
	conn, done, _, err := s.openAs(ctx, run, "show")
	return conn, done, err
}

// openAs also says whether the run was stopped: its store is then served here.
func (s Source) openAs(ctx context.Context, run subjects.Run, command string) (_ *bus.Conn, done func(), stopped bool, err error) {
	if err := run.Validate(); err != nil {
		return nil, nil, false, err
	}
	options := s.Bus
	options.Name, options.Log = "headrace "+command+" "+string(run), s.Log
	if s.Remote {
		conn, err := bus.Connect(ctx, options)
		return conn, func() { closeQuietly(conn) }, false, err
	}
	dir := runDir(filepath.Join(s.Root, string(run)))
	if _, err := os.Stat(dir.store()); err != nil {
		return nil, nil, false, fmt.Errorf("%w %s in %s (`headrace runs` lists what there is; a run elsewhere needs --url)", errNoRun, run, s.Root)
	}
	if _, err := os.Stat(dir.credentials()); err == nil {
		options.CredentialsFile = dir.credentials()
		if conn, err := bus.Connect(ctx, options); err == nil {
			return conn, func() { closeQuietly(conn) }, false, nil
		}
	}
	conn, done, err := openStopped(ctx, dir, options)
	return conn, done, true, err
}

// openStopped serves the store of a run that nobody plays, in this process only.
func openStopped(ctx context.Context, dir runDir, options bus.Options) (*bus.Conn, func(), error) {
	server, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: dir.store(), Port: -1, Log: options.Log.Level(zerolog.WarnLevel)})
	if err != nil {
		return nil, nil, err
	}
	inner := server.Options()
	inner.Name, inner.Log = options.Name, options.Log
	conn, err := bus.Connect(ctx, inner)
	if err != nil {
		server.Shutdown()
		return nil, nil, err
	}
	return conn, func() { closeQuietly(conn); server.Shutdown() }, nil
}

func closeQuietly(c *bus.Conn) {
	if c != nil {
		c.Close() //nolint:errcheck // a reader loses nothing
	}
}

// Runs lists the runs of a bus, or those that have a folder here.
func Runs(ctx context.Context, s Source) ([]RunInfo, error) {
	if s.Remote {
		return remoteRuns(ctx, s)
	}
	names, err := LocalRuns(s.Root)
	if err != nil {
		return nil, err
	}
	infos := make([]RunInfo, 0, len(names))
	for _, n := range names {
		dir := runDir(filepath.Join(s.Root, n))
		info := RunInfo{Run: n, Where: string(dir)}
		if st, err := os.Stat(string(dir)); err == nil {
			info.Created = st.ModTime()
		}
		if _, err := os.Stat(dir.credentials()); err == nil {
			options := s.Bus
			options.CredentialsFile, options.Log = dir.credentials(), s.Log
			conn, err := bus.Connect(ctx, options)
			info.Live = err == nil
			closeQuietly(conn)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func remoteRuns(ctx context.Context, s Source) ([]RunInfo, error) {
	options := s.Bus
	options.Name, options.Log = "headrace runs", s.Log
	conn, err := bus.Connect(ctx, options)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(conn)
	records, err := bus.Runs(ctx, conn)
	if errors.Is(err, bus.ErrNotFound) || errors.Is(err, bus.ErrNoStream) {
		return nil, nil
	}
	var infos []RunInfo
	for i := range records {
		infos = append(infos, RunInfo{Run: string(records[i].Run), Created: time.Unix(0, records[i].Created), Where: conn.NC().ConnectedUrlRedacted(), Live: true})
	}
	return infos, err
}

// ShowRun reads a run's log and sums it up, as far as it has come.
func ShowRun(ctx context.Context, s Source, run subjects.Run) (*Summary, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := join(ctx, conn, run, s.Log)
	if err != nil {
		return nil, err
	}
	out, _, err := m.sum(ctx)
	return out, err
}

// sum reads the run's log and sums it up, as far as it has come.
func (m *member) sum(ctx context.Context) (*Summary, *BoardState, error) {
	began := time.Unix(0, m.record.Created)
	board := NewBoard(began, int64(m.recipe.Trainer.Steps))
	last := began
	err := readAll(ctx, m.conn, m.run, subjects.Ledger, func(msg *bus.Msg) { foldLedger(board, msg); last = later(last, msg.Time) })
	if err == nil {
		err = readAll(ctx, m.conn, m.run, subjects.Weights, func(msg *bus.Msg) { foldWeights(board, msg); last = later(last, msg.Time) })
	}
	if err != nil {
		return nil, nil, err
	}
	state := board.State()
	out := summarize(&state, began, last)
	out.Run, out.Recipe, out.Seed = string(m.run), m.recipe.Name, m.recipe.Seed
	if out.End == "" {
		out.End = "not yet"
	}
	out.Yardsticks, err = m.yardsticks()
	return &out, &state, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// errEnough ends a look at a stream that has shown what was looked for.
var errEnough = errors.New("enough")

// readAll reads a stream from its start to what is its end now.
func readAll(ctx context.Context, c *bus.Conn, run subjects.Run, s subjects.Stream, fn func(*bus.Msg)) error {
	return show.Each(ctx, c, run, s, fn)
}

// entries reads the ledger to what is its end now.
func entries(ctx context.Context, c *bus.Conn, run subjects.Run, fn func(uint64, *subjects.Entry)) error {
	return show.Entries(ctx, c, run, fn)
}

// Found is one thing of a run: the ledger's word on it.
type Found = show.Found

// with looks at a run on its bus, for as long as fn takes.
func with[T any](ctx context.Context, s Source, run subjects.Run, fn func(*bus.Conn) (T, error)) (out T, err error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return out, err
	}
	defer done()
	return fn(conn)
}

// ShowStep finds the batch of a step and what the trainer said of it.
func ShowStep(ctx context.Context, s Source, run subjects.Run, step subjects.Step) (*Found, error) {
	return with(ctx, s, run, func(c *bus.Conn) (*Found, error) { return show.Step(ctx, c, run, step) })
}

// ShowGroup finds a group's verdict and the step it was trained in.
func ShowGroup(ctx context.Context, s Source, run subjects.Run, group subjects.GroupID) (*Found, error) {
	return with(ctx, s, run, func(c *bus.Conn) (*Found, error) { return show.Group(ctx, c, run, group) })
}

// ShowTrajectory finds the body of a trajectory, by its id group/slot/attempt.
func ShowTrajectory(ctx context.Context, s Source, run subjects.Run, id string) (*subjects.Trajectory, error) {
	return with(ctx, s, run, func(c *bus.Conn) (*subjects.Trajectory, error) {
		b, err := show.Find(ctx, c, run, id)
		if err != nil {
			return nil, err
		}
		return b.Trajectory, nil
	})
}
