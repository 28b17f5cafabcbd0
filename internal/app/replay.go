package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// ReplayFilter chooses the trajectories of a replay or a tail.
type ReplayFilter = replay.Filter

// ReplaySteps are the training steps of a ReplayFilter.
type ReplaySteps = replay.Steps

// ReplayOptions configure [Replay].
type ReplayOptions struct {
	Filter ReplayFilter
	// UntilStep ends it with the last trajectory that had come when the batch of
	// this step was cut. 0: the end of the log.
	UntilStep subjects.Step
	// Speed is a factor on the recording's own; 0: as fast as it goes.
	Speed float64
	// File, when set, gets a line of JSON for each trajectory; it must not exist.
	File string
	// Each, when set, is called with each trajectory.
	Each func(*Replayed) error
}

// Replayed is a trajectory that was replayed, or came by a tap.
type Replayed struct {
	Seq      uint64        `json:"seq"`
	Index    int           `json:"index"`
	Time     time.Time     `json:"time"` // when the server stored it
	Producer string        `json:"producer"`
	Step     subjects.Step `json:"step,omitempty"` // that trained on it, if steps were asked for
	ID       string        `json:"id"`
	// Entry is the index entry: status, reward, counts.
	Kind        subjects.Kind          `json:"kind"`
	Environment string                 `json:"environment"`
	Status      subjects.Status        `json:"status"`
	Reward      number                 `json:"reward"`
	Tokens      int                    `json:"tokens"`
	MinVersion  subjects.PolicyVersion `json:"min_version"`
	MaxVersion  subjects.PolicyVersion `json:"max_version"`
	// Trajectory is the body; nil from a tap, and when Error says why.
	Trajectory *Trajectory `json:"trajectory,omitempty"`
	Error      string      `json:"error,omitempty"`

	Decoded *subjects.Trajectory `json:"-"`
}

// ReplayReport sums up a replay.
type ReplayReport struct {
	Run subjects.Run `json:"run"`
	replay.Digest
	// Sum is the digest: equal when the same was replayed.
	Sum     string  `json:"digest"`
	File    string  `json:"file,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Replay reads trajectories of a run again, in the order of its log.
func Replay(ctx context.Context, s Source, run subjects.Run, o ReplayOptions) (*ReplayReport, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := known(ctx, conn, run); err != nil {
		return nil, err
	}
	if o.UntilStep > 0 {
		seq, err := replay.UntilStep(ctx, conn, run, o.UntilStep)
		if err != nil {
			return nil, err
		}
		if o.Filter.Last == 0 || seq < o.Filter.Last {
			o.Filter.Last = seq
		}
	}
	out := &ReplayReport{Run: run, File: o.File}
	began, pace := time.Now(), replay.Pace{Speed: o.Speed}
	err = o.into(func(put func(*Replayed) error) error {
		return replay.Read(ctx, conn, run, o.Filter, func(r *replay.Record) error {
			if err := pace.Wait(ctx, r.Time); err != nil {
				return err
			}
			v := replayed(r)
			out.Add(r)
			return put(v)
		})
	})
	out.Sum, out.Seconds = out.Digest.Sum(), time.Since(began).Seconds()
	return out, err
}

// known tells a run that is not there from an empty one.
func known(ctx context.Context, c *bus.Conn, run subjects.Run) error {
	_, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if errors.Is(err, bus.ErrNoStream) || errors.Is(err, bus.ErrNotFound) {
		return fmt.Errorf("no run %s on this bus: `headrace runs` lists what there is", run)
	}
	return err
}

// into opens what gets the trajectories, for as long as read takes. A file is
// there when it is whole.
func (o *ReplayOptions) into(read func(put func(*Replayed) error) error) error {
	each := o.Each
	if each == nil {
		each = func(*Replayed) error { return nil }
	}
	if o.File == "" {
		return read(each)
	}
	if _, err := os.Stat(o.File); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: name another file, or remove it", o.File)
	}
	part := o.File + ".part"
	f, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("write the replay: %w", err)
	}
	defer os.Remove(part) //nolint:errcheck // renamed when whole
	w := &lines{w: f}
	err = read(func(r *Replayed) error { return errors.Join(w.put(r), each(r)) })
	if err := errors.Join(err, w.flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(part, o.File)
}

// replayed is the form of a record that scripts read.
func replayed(r *replay.Record) *Replayed {
	e := &r.Entry
	v := &Replayed{Seq: r.Seq, Index: r.Index, Time: r.Time.UTC(), Producer: r.Producer, Step: r.Step, ID: e.ID(), Kind: e.Kind, Environment: e.Environment,
		Status: e.Status, Reward: number(e.Reward), Tokens: e.Tokens, MinVersion: e.MinVersion, MaxVersion: e.MaxVersion}
	if r.Err == nil && r.Body != nil {
		v.Decoded, r.Err = subjects.DecodeTrajectory(r.Body)
	}
	if r.Err != nil {
		v.Error = r.Err.Error()
		return v
	}
	if v.Decoded != nil {
		v.Trajectory = ViewTrajectory(v.Decoded)
	}
	return v
}

// Tail calls each with the trajectories that are chosen, as they come, until the
// run ends, whose reason it returns, or ctx does. They have no bodies.
func Tail(ctx context.Context, s Source, run subjects.Run, f ReplayFilter, each func(*Replayed) error) (end string, err error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return "", err
	}
	defer done()
	if err := known(ctx, conn, run); err != nil {
		return "", err
	}
	return replay.Tail(ctx, conn, run, f, func(r *replay.Record) error { return each(replayed(r)) })
}

// lines writes JSON lines through a buffer.
type lines struct {
	w   io.Writer
	buf []byte
}

const lineBuffer = 1 << 20

func (l *lines) put(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the replay: %w", err)
	}
	if l.buf = append(append(l.buf, b...), '\n'); len(l.buf) >= lineBuffer {
		return l.flush()
	}
	return nil
}

func (l *lines) flush() error {
	_, err := l.w.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}
