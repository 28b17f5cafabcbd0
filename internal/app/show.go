package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

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
	if err := run.Validate(); err != nil {
		return nil, nil, err
	}
	options := s.Bus
	options.Name, options.Log = "headrace show "+string(run), s.Log
	if s.Remote {
		conn, err := bus.Connect(ctx, options)
		return conn, func() { closeQuietly(conn) }, err
	}
	dir := runDir(filepath.Join(s.Root, string(run)))
	if _, err := os.Stat(dir.store()); err != nil {
		return nil, nil, fmt.Errorf("no run %s in %s (`headrace runs` lists what there is; a run elsewhere needs --url)", run, s.Root)
	}
	if _, err := os.Stat(dir.credentials()); err == nil {
		options.CredentialsFile = dir.credentials()
		if conn, err := bus.Connect(ctx, options); err == nil {
			return conn, func() { closeQuietly(conn) }, nil
		}
	}
	return openStopped(ctx, dir, options)
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

var errEnough = errors.New("enough")

// readAll reads a stream from its start to what is its end now.
func readAll(ctx context.Context, c *bus.Conn, run subjects.Run, s subjects.Stream, fn func(*bus.Msg)) error {
	state, err := bus.StreamState(ctx, c, run, s)
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.Follow(ctx, c, run.StreamName(s), run.Filter(s), state.FirstSeq, func(m *bus.Msg) error {
		fn(m)
		if m.Seq >= state.LastSeq {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// Found is one thing of a run: the ledger's word on it.
type Found struct {
	LedgerSeq uint64                `json:"ledger_seq,omitempty"`
	Batch     *subjects.Batch       `json:"batch,omitempty"`
	Commit    *subjects.CommitEvent `json:"commit,omitempty"`
	Verdict   *subjects.Verdict     `json:"verdict,omitempty"`
	Step      subjects.Step         `json:"trained_in_step,omitempty"`
}

// ShowStep finds the batch of a step and what the trainer said of it.
func ShowStep(ctx context.Context, s Source, run subjects.Run, step subjects.Step) (*Found, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	f := &Found{}
	err = entries(ctx, conn, run, func(seq uint64, e *subjects.Entry) {
		for i := range e.Batches {
			if e.Batches[i].Step == step {
				f.Batch, f.LedgerSeq = &e.Batches[i], seq
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if f.Batch == nil {
		return nil, fmt.Errorf("run %s has no batch of step %d", run, step)
	}
	err = readAll(ctx, conn, run, subjects.Weights, func(m *bus.Msg) {
		var c subjects.CommitEvent
		if strings.HasSuffix(m.Subject, "."+string(subjects.EventCommit)) && subjects.DecodeMessage(m.Data, &c) == nil && c.Step == step {
			f.Commit = &c
		}
	})
	return f, err
}

// ShowGroup finds a group's verdict and the step it was trained in.
func ShowGroup(ctx context.Context, s Source, run subjects.Run, group subjects.GroupID) (*Found, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	f := &Found{}
	err = entries(ctx, conn, run, func(seq uint64, e *subjects.Entry) { f.group(seq, e, group) })
	if err == nil && f.Verdict == nil {
		err = fmt.Errorf("run %s has no verdict on group %s: it is open or of an evaluation, which has none, or there is no such group", run, group)
	}
	return f, err
}

func (f *Found) group(seq uint64, e *subjects.Entry, group subjects.GroupID) {
	for i := range e.Verdicts {
		if e.Verdicts[i].Group == group {
			f.Verdict, f.LedgerSeq = &e.Verdicts[i], seq
		}
	}
	for i := range e.Batches {
		for j := range e.Batches[i].Groups {
			if e.Batches[i].Groups[j].Group == group {
				f.Step = e.Batches[i].Step
			}
		}
	}
}

func entries(ctx context.Context, c *bus.Conn, run subjects.Run, fn func(uint64, *subjects.Entry)) error {
	var bad error
	err := readAll(ctx, c, run, subjects.Ledger, func(m *bus.Msg) {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			bad = fmt.Errorf("ledger entry %d: %w", m.Seq, err)
			return
		}
		fn(m.Seq, &e)
	})
	return errors.Join(err, bad)
}

// ShowTrajectory finds the body of a trajectory, by its id group/slot/attempt.
func ShowTrajectory(ctx context.Context, s Source, run subjects.Run, id string) (*subjects.Trajectory, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	at, err := locate(ctx, conn, run, id)
	if err != nil {
		return nil, err
	}
	var t *subjects.Trajectory
	fetcher := bus.NewFetcher(conn, run.StreamName(subjects.Rollouts), bus.FetchConfig{})
	err = fetcher.Fetch(ctx, []bus.SeqSize{{Seq: at.Seq}}, func(seq uint64, hdr nats.Header, data []byte) error {
		b, err := bus.OpenBundle(seq, hdr, data)
		if err != nil {
			return err
		}
		if body := b.Body(at.Index); body != nil {
			t, err = subjects.DecodeTrajectory(body)
			return err
		}
		return b.Items[at.Index].Err
	})
	return t, err
}

// locate finds a trajectory in the index of ROLLOUTS.
func locate(ctx context.Context, c *bus.Conn, run subjects.Run, id string) (at subjects.Address, err error) {
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil {
		return at, err
	}
	missing := fmt.Errorf("run %s has no trajectory %s", run, id)
	if state.Msgs == 0 {
		return at, missing
	}
	err = bus.FollowHeaders(ctx, c, run, state.FirstSeq, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			for k, text := range msgs[i].Header[subjects.HeaderIndex] {
				if e, err := subjects.ParseIndex(text); err == nil && e.ID() == id {
					at = subjects.Address{Seq: msgs[i].Seq, Index: k}
					return errEnough
				}
			}
			if msgs[i].Seq >= state.LastSeq {
				return missing
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return at, nil
	}
	return at, err
}
