package synth

import (
	"math"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// batch is what the trainer sees of one.
type batch struct {
	step         subjects.Step
	rows, tokens int
	reward       float64
	staleness    float64
}

// trainer is the made-up trainer: it trains, publishes weights, saves, and dies once.
type trainer struct {
	incarnation int
	committed   subjects.Step
	saved       subjects.Step
	batches     map[subjects.Step]batch
	busy        bool
	idle        int64 // since when it waits
	began       int64 // when what it does now began
	died        bool
	life        int // what was to happen in an earlier one does not
}

// startup is how long a trainer takes to start, compiling included.
const startup = 9 * second

func (t *trainer) start(w *world) {
	t.batches = map[subjects.Step]batch{}
	t.began = w.now
	w.after(startup, func() { t.resume(w, 0) })
}

// resume starts the trainer from a checkpoint.
func (t *trainer) resume(w *world, step subjects.Step) {
	t.incarnation++
	t.committed, t.busy, t.idle = step, false, w.now
	w.telemetry.trainer(w, "start", t.began, w.now, step)
	e := &subjects.ResumedEvent{V: 1, Step: step, Incarnation: t.incarnation, At: w.now}
	w.core.Resumed(w.event(subjects.EventResumed, e), w.now, e)
	t.publish(w, step)
	t.next(w)
}

// cut is told of a batch.
func (t *trainer) cut(w *world, b batch) {
	t.batches[b.step] = b
	t.next(w)
}

// next trains on the next batch, if there is one.
func (t *trainer) next(w *world) {
	b, ok := t.batches[t.committed+1]
	if !ok || t.busy || t.incarnation == 0 {
		return
	}
	if !t.died && b.step > 2*checkpointEvery && int(b.step) > w.o.Steps*2/5 {
		t.die(w)
		return
	}
	delete(t.batches, b.step-4*checkpointEvery) // no checkpoint is further back
	t.busy, t.life = true, t.life+1
	life, waited := t.life, w.now-t.idle
	w.telemetry.trainer(w, "wait for batch", t.idle, w.now, b.step)
	prepare := 20*millisecond + int64(b.rows)*30_000
	lasts := int64(float64(1600*millisecond)*math.Exp(0.08*w.rng.NormFloat64())) + int64(b.tokens)*8_000
	compile := int64(0)
	if t.compiles(b.step) {
		compile = 3 * second
	}
	began := w.now
	w.after(prepare+compile+lasts, func() {
		if t.life == life {
			t.commit(w, b, began, prepare, compile, waited)
		}
	})
}

// compiles in the first step of a life, and when a batch of another shape comes.
func (t *trainer) compiles(step subjects.Step) bool {
	return step == 1 || step%977 == 400 || t.died && t.committed == t.saved
}

func (t *trainer) commit(w *world, b batch, began, prepare, compile, waited int64) {
	w.telemetry.trainer(w, "prepare", began, began+prepare, b.step)
	w.telemetry.trainer(w, "train step", began+prepare, w.now, b.step)
	if compile > 0 {
		w.telemetry.compile(began+prepare, began+prepare+compile)
	}
	t.committed = b.step
	e := &subjects.CommitEvent{V: 1, Step: b.step, Incarnation: t.incarnation, Tokens: int64(b.tokens), At: w.now,
		TrainSeconds: float64(w.now-began) / 1e9, WaitSeconds: float64(waited) / 1e9, Metrics: t.metrics(w, b, compile)}
	w.core.Commit(w.event(subjects.EventCommit, e), w.now, e)
	w.decide()
	t.idle = w.now
	busy := int64(0)
	if b.step%checkpointEvery == 0 || int(b.step) == w.o.Steps {
		busy = 700 * millisecond
	}
	life := t.life
	w.after(busy, func() {
		if t.life != life {
			return
		}
		if busy > 0 {
			t.save(w, w.now-busy)
		}
		began := w.now
		w.after(150*millisecond, func() {
			if t.life == life {
				w.telemetry.trainer(w, "publish weights", began, w.now, t.committed)
				t.publish(w, t.committed)
				t.busy, t.idle = false, w.now
				t.next(w)
			}
		})
	})
}

func (t *trainer) save(w *world, began int64) {
	t.saved = t.committed
	w.telemetry.trainer(w, "checkpoint", began, w.now, t.committed)
	w.core.Weights(w.event(subjects.EventCheckpoint, &subjects.CheckpointEvent{V: 1, Step: t.committed, Incarnation: t.incarnation,
		Path: "checkpoints/step-" + strconv.Itoa(int(t.committed)), At: w.now}))
}

// publish announces weights, which every engine then loads.
func (t *trainer) publish(w *world, step subjects.Step) {
	v := subjects.PolicyVersion(step)
	e := &subjects.VersionEvent{V: 1, Version: v, Step: step, Incarnation: t.incarnation, Dir: "weights/" + strconv.Itoa(int(step)), Format: "safetensors",
		Files: []subjects.File{{Name: "model.safetensors", Bytes: 560 << 10, SHA256: "00"}}, At: w.now}
	w.core.Version(w.event(subjects.EventVersion, e), e)
	for i, engine := range w.engines {
		w.after(int64(i)*3*millisecond, func() { engine.load(w, v, t.incarnation) })
	}
	w.decide()
}

// die: the trainer is killed, and comes back from its last checkpoint.
func (t *trainer) die(w *world) {
	t.died, t.busy, t.life = true, true, t.life+1
	w.after(6*second, func() { t.began = w.now })
	w.after(6*second+startup, func() { t.resume(w, t.saved) })
}

func (t *trainer) metrics(w *world, b batch, compile int64) map[string]float64 {
	x := float64(b.step) / float64(w.o.Steps)
	noise := func(s float64) float64 { return s * w.rng.NormFloat64() }
	m := map[string]float64{"loss": 0.02*math.Exp(-2*x) - 0.01 + noise(0.004), "nll": 0.5*math.Exp(-x) + noise(0.01), "entropy": 0.15 + 0.7*math.Exp(-2.5*x) + noise(0.01),
		"kl": 0.002 + 0.05*x + math.Abs(noise(0.002)), "clip_fraction": math.Abs(0.03 + noise(0.01)), "grad_norm": 0.3 + 0.6*math.Exp(-2*x) + math.Abs(noise(0.05)),
		"lr": 1e-3, "ratio_max": 1.3 + math.Abs(noise(0.2)), "staleness_mean": b.staleness, "tokens": float64(b.tokens)}
	if compile > 0 {
		m["compiles"], m["compile_seconds"] = 1, float64(compile)/1e9
	}
	return m
}

// event writes an event of the trainer.
func (w *world) event(kind subjects.WeightsEvent, e any) uint64 {
	return w.weigh(w.run.WeightsSubject(kind), e)
}

func (w *world) weigh(subject string, e any) uint64 {
	data, err := subjects.EncodeMessage(e)
	if err != nil {
		w.err = err
	}
	n := strconv.FormatUint(w.store.streams[subjects.Weights].seq+1, 10)
	return w.store.add(subjects.Weights, subject, w.now, header(jetstream.MsgIDHeader, "weights/"+n), data)
}

// load has an engine load weights, unless newer ones were announced meanwhile.
func (e *engine) load(w *world, v subjects.PolicyVersion, incarnation int) {
	pause := 8*millisecond + w.rng.Int64N(15*millisecond)
	load := 60*millisecond + int64(float64(80*millisecond)*math.Abs(w.rng.NormFloat64()))
	verify, resume := 12*millisecond+w.rng.Int64N(6*millisecond), 3*millisecond+w.rng.Int64N(3*millisecond)
	e.paused = true
	began := w.now
	w.after(pause+load+verify+resume, func() {
		ack := &subjects.AckEvent{V: 1, Engine: e.name, Version: v, Incarnation: incarnation, At: w.now, PauseSeconds: float64(pause) / 1e9,
			LoadSeconds: float64(load) / 1e9, VerifySeconds: float64(verify) / 1e9, ResumeSeconds: float64(resume) / 1e9}
		if w.rng.IntN(997) == 0 {
			ack.Error, ack.VerifySeconds, ack.ResumeSeconds = "model.safetensors: checksum differs", 0, 0
		} else {
			e.serve(began, v) // calls that came since then were held back
		}
		e.paused, e.syncs, e.syncTime = false, e.syncs+1, e.syncTime+float64(w.now-began)/1e9
		w.telemetry.sync(e, v, began, pause, load, verify, resume)
		w.core.Ack(w.weigh(w.run.AckSubject(e.name), ack), ack)
		w.decide()
		w.assign()
	})
}
