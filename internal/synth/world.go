package synth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

const (
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
)

// world is a run that is being made up. One goroutine owns all of it.
type world struct {
	clock
	o      Options
	run    subjects.Run
	recipe *recipe.Recipe
	tok    *tokenizer.Words
	cfg    grouper.Config
	data   *dataset.Dataset
	core   *grouper.Core
	signer *subjects.LeaseSigner
	rng    *rand.Rand
	store  *store
	shelf  *shelf
	report Report
	err    error

	letters   uint64 // dead letters so far
	entries   uint64
	producers []*producer
	engines   []*engine
	tasks     []grouper.Play // handed out, not taken
	trainer   trainer
	telemetry telemetry
}

// Write makes up a run and writes it to the bus. The run must not be there.
func Write(ctx context.Context, conn *bus.Conn, o Options) (*Report, error) {
	began := time.Now()
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if _, err := bus.LookupRun(ctx, conn, o.Run); err == nil {
		return nil, fmt.Errorf("synthetic run: there is a run %s already; choose another name", o.Run)
	} else if !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	w, err := newWorld(o)
	if err != nil {
		return nil, err
	}
	if err := w.open(ctx, conn); err != nil {
		return nil, err
	}
	defer w.store.drop()
	if err := w.play(ctx); err != nil {
		return nil, fmt.Errorf("synthetic run %s: %w", o.Run, err)
	}
	if err := w.close(ctx, conn); err != nil {
		return nil, fmt.Errorf("synthetic run %s: %w", o.Run, err)
	}
	w.report.Seconds = time.Since(began).Seconds()
	return &w.report, nil
}

func newWorld(o Options) (*world, error) {
	w := &world{o: o, run: o.Run, rng: rand.New(rand.NewPCG(uint64(o.Seed), 2)), signer: subjects.NewLeaseSigner(o.key())} //nolint:gosec // not a secret
	var err error
	if w.recipe, err = o.recipe(); err != nil {
		return nil, err
	}
	if w.tok, err = vocabulary(w.recipe); err != nil {
		return nil, err
	}
	t, err := newTeller(w.tok, o.Seed)
	if err != nil {
		return nil, err
	}
	w.shelf, w.cfg = newShelf(t), w.recipe.Grouper
	if w.data, err = dataset.Open(w.recipe.Dataset, w.cfg.Evaluation.Tasks, w.recipe.Seed); err != nil {
		return nil, err
	}
	supply := grouper.Supply{}
	for range w.cfg.Environments {
		supply.Train = append(supply.Train, w.data.Groups())
	}
	if w.core, err = grouper.New(w.cfg, supply); err != nil {
		return nil, err
	}
	w.report = Report{Run: o.Run, Statuses: map[string]int{}, Outcomes: map[string]int{}}
	w.now = o.Start.UnixNano()
	return w, nil
}

// open makes the run's streams, and its key one that follows from the seed.
func (w *world) open(ctx context.Context, conn *bus.Conn) (err error) {
	options := w.recipe.StreamOptions()
	if err := bus.EnsureStreams(ctx, conn, w.run, options); err != nil {
		return err
	}
	kv, err := conn.JS().KeyValue(ctx, w.run.KeysBucket())
	if err == nil {
		_, err = kv.Put(ctx, subjects.LeaseKeyName, w.o.key())
	}
	if err != nil {
		return fmt.Errorf("synthetic run: set the lease key: %w", err)
	}
	w.store, err = openStore(ctx, conn, w.run, options)
	if err != nil && w.store != nil {
		w.store.drop()
	}
	return err
}

// play lets time pass until the run has ended.
func (w *world) play(ctx context.Context) error {
	w.openFleet()
	w.trainer.start(w)
	w.tick()
	for n := 0; w.core.Ended() == "" && w.err == nil; n++ {
		if n%1024 == 0 {
			if w.err = errors.Join(ctx.Err(), w.store.err()); w.o.Progress != nil {
				w.o.Progress(w.report.Trajectories)
			}
		}
		if !w.step() {
			return fmt.Errorf("stands still at step %d: %s", w.trainer.committed, w.core.View(w.now).Waiting)
		}
	}
	w.telemetry.tick(w, true)
	return w.err
}

func (w *world) close(ctx context.Context, conn *bus.Conn) error {
	if err := w.store.finish(ctx); err != nil {
		return err
	}
	record, err := w.o.record(w.recipe, w.tok, w.core.Ended())
	if err != nil {
		return err
	}
	r, stats := &w.report, w.core.Stats()
	for o, n := range stats.Outcomes {
		r.Outcomes[string(o)] = int(n) //nolint:gosec // a count
	}
	r.Steps, r.Trained, r.Stored = w.trainer.committed, stats.Trained, w.store.size
	r.Letters, r.Entries = int(w.letters), int(w.entries) //nolint:gosec // counts
	r.Lasted = time.Duration(w.now - w.o.Start.UnixNano()).Seconds()
	return bus.CreateRun(ctx, conn, record)
}

// tick has the grouper look at its clocks, and everybody report, once a second.
func (w *world) tick() {
	w.decide()
	w.telemetry.tick(w, false)
	w.after(second, w.tick)
}
