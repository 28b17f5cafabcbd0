package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/subjects"
)

// spoilWeights damages a version between its announcement and its load: the
// sidecar is held while that happens.
func spoilWeights(how string) func(context.Context, *world) (wound, error) {
	return func(ctx context.Context, w *world) (wound, error) {
		sidecar := w.procs["sidecar"]
		if err := sidecar.signal(syscall.SIGSTOP); err != nil {
			return wound{}, err
		}
		defer sidecar.signal(syscall.SIGCONT) //nolint:errcheck // whatever happens
		before := newestVersion(w.path("weights"))
		var dir string
		err := await(ctx, 20*time.Second, func() error {
			if dir = newestVersion(w.path("weights")); dir == before {
				return errors.New("no new version")
			}
			return nil
		})
		if err == nil {
			err = damage(filepath.Join(w.path("weights"), dir, weightsName), how, w.pickOne)
		}
		if err != nil {
			return wound{}, err
		}
		hurt := wounded(how+" weights of "+dir+":", "sidecar", time.Now())
		hurt.Spoiled = dir
		return hurt, nil
	}
}

func newestVersion(dir string) string {
	names, _ := filepath.Glob(filepath.Join(dir, "v*"))
	if len(names) == 0 {
		return ""
	}
	return filepath.Base(slices.Max(names))
}

// damage tears a file, or puts other bytes of the same length in its place.
func damage(name, how string, draw func(int) int) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	switch how {
	case "torn":
		return os.Truncate(name, int64(draw(len(text))))
	case "replaced":
		for i := range text {
			text[i] ^= 0x5a
		}
	case "flipped":
		text[draw(len(text))] ^= 1 << draw(8)
	}
	return os.WriteFile(name, text, 0o644)
}

// tearCheckpoint kills the trainer and damages the newest checkpoint, sometimes
// the two newest, while it is down.
func tearCheckpoint(_ context.Context, w *world) (wound, error) {
	text := ""
	back, err := w.procs["trainer"].crash(syscall.SIGKILL, w.between(0, 200*time.Millisecond), func() error {
		names := checkpointFiles(w.path("checkpoints"))
		slices.Reverse(names)
		for _, name := range names[:min(len(names), 1+w.pickOne(2))] {
			how := w.one("torn", "flipped")
			short, _ := filepath.Rel(w.path("checkpoints"), name)
			text += fmt.Sprintf("%s %s, ", short, how)
			if err := damage(name, how, w.pickOne); err != nil {
				return err
			}
		}
		return nil
	})
	return wounded("SIGKILL, "+text+"back:", "trainer", back), err
}

// flipBit kills the server and flips a bit of a block of its store.
func flipBit(_ context.Context, w *world) (wound, error) {
	text := ""
	back, err := w.procs["nats"].crash(syscall.SIGKILL, 50*time.Millisecond, func() error {
		blocks, err := w.blocks()
		if err != nil || len(blocks) == 0 {
			return errors.Join(err, errors.New("the store has no blocks"))
		}
		name := blocks[w.pickOne(len(blocks))]
		text, _ = filepath.Rel(w.path("nats"), name)
		return damage(name, "flipped", w.pickOne)
	})
	hurt := whole(back, "a bit of %s flipped", text)
	hurt.Loses = true
	return hurt, err
}

// blocks are the files with messages of the streams that a run cannot do without.
func (w *world) blocks() (names []string, err error) {
	err = filepath.WalkDir(w.path("nats"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".blk" {
			for _, s := range []subjects.Stream{subjects.Rollouts, subjects.Ledger, subjects.Weights} {
				info, err := d.Info()
				if err == nil && info.Size() > 0 && strings.Contains(path, runName.StreamName(s)) {
					names = append(names, path)
				}
			}
		}
		return err
	})
	return names, err
}

// fillVolume fills the store's volume for a while.
func fillVolume(ctx context.Context, w *world) (wound, error) {
	held := w.between(300*time.Millisecond, 2*time.Second)
	if err := w.volume.fill(); err != nil {
		return wound{}, err
	}
	err := pause(ctx, held)
	p := w.procs["nats"]
	p.mu.Lock()
	lives, up := p.lives, p.cmd != nil
	p.mu.Unlock()
	freed := w.volume.free()
	if err := errors.Join(err, freed); err != nil {
		return wound{}, err
	}
	back := time.Now()
	if !up {
		back, err = p.awaitLife(lives + 1)
	}
	return whole(back, "store's volume full for %s", held.Round(time.Millisecond)), err
}

// shiftClock kills a process that comes back with its clock an hour off.
func shiftClock(_ context.Context, w *world) (wound, error) {
	victim := w.one("group-a", "bridge", "sidecar", "produce-a", "trainer", "nats")
	offset := time.Hour
	if w.pickOne(2) == 0 {
		offset = -offset
	}
	back, err := w.procs[victim].crash(syscall.SIGKILL, 50*time.Millisecond, func() error {
		if w.o.clock == "" {
			return errors.New("no binaries with a clock of their own: give --clock (make chaos builds them)")
		}
		w.shifted[victim] = offset
		return nil
	})
	hurt := whole(back, "%s comes back with its clock off by %s", victim, offset)
	if victim == "nats" {
		hurt.Shift = offset
	}
	return hurt, err
}
