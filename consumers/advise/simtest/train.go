package simtest

import (
	"time"

	"github.com/headrace/headrace/subjects"
)

// trainer takes a batch, learns from it and publishes weights.
type trainer struct {
	busy  bool
	since float64 // it has been waiting
	spans []subjects.TimeSpan
}

func (w *world) did(name string, lane int32, from, to float64) {
	if to > from {
		w.spans = append(w.spans, subjects.TimeSpan{Name: name, Lane: lane, Start: at(from).UnixNano(), Duration: int64((to - from) * 1e9)})
	}
}

// receive hands the trainer the next batch, if it waits for one.
func (w *world) receive() {
	if w.trainer.busy || len(w.ready) == 0 {
		return
	}
	b := w.ready[0]
	w.ready = w.ready[1:]
	w.trainer.busy = true
	w.delivered = int(b.Step)
	waited := w.now - w.since
	w.did("wait for batch", 0, w.since, w.now)
	began, train, compile := w.now, w.TrainTime, 0.0
	if w.rand.Float64() < w.CompilePart || b.Step == 1 {
		compile = w.CompileTime
	}
	w.after(train+compile, func() {
		w.did("train step", 0, began, w.now)
		w.did("compile", 1, began, began+compile)
		metrics := map[string]float64{"loss": .1, "compile_seconds": compile}
		if compile > 0 {
			metrics["compiles"] = 1
		}
		w.board.Commit(&subjects.CommitEvent{Step: b.Step, Incarnation: 1, Tokens: int64(b.Tokens), TrainSeconds: train + compile, WaitSeconds: waited, Metrics: metrics, At: w.time().UnixNano()})
		w.committed = int(b.Step)
		w.publish(w.committed)
		w.batches()
	})
}

func (w *world) publish(version int) {
	began := w.now
	w.after(w.PublishTime, func() {
		w.did("publish weights", 0, began, w.now)
		w.board.Version(&subjects.VersionEvent{Version: subjects.PolicyVersion(version)})
		for _, x := range w.engine {
			w.load(x, int64(version))
		}
		saving := w.now
		w.after(w.CheckpointTime, func() {
			w.did("checkpoint", 0, saving, w.now)
			w.trainer.busy, w.since = false, w.now
			w.receive()
		})
	})
}

func (w *world) load(x *engine, version int64) {
	x.paused = w.now + w.SyncTime
	w.after(w.SyncTime, func() {
		x.version = max(x.version, version)
		x.syncing += w.SyncTime
		w.board.Ack(&subjects.AckEvent{Engine: x.name, Version: subjects.PolicyVersion(version), LoadSeconds: w.SyncTime, At: w.time().UnixNano()})
		w.issue() // what comes now is sampled by the new weights
	})
}

// report is what everybody says each second.
func (w *world) report() {
	held := 0
	for _, g := range w.open {
		held += len(g.members)
	}
	for _, g := range w.kept {
		held += len(g.members)
	}
	w.say("grouper", "up", map[string]float64{"open_groups": float64(len(w.open)), "kept_groups": float64(len(w.kept)), "held_trajectories": float64(held),
		"slots_in_flight": float64(w.live + len(w.tasks)), "produced": float64(w.produced), "trained": float64(w.trained), "committed_step": float64(w.committed),
		"dropped_zero_variance": float64(w.zeroDropped), "dropped_stale": float64(w.staleDropped)})
	w.say("bridge", "up", map[string]float64{"trainers": 1, "batches_ready": float64(len(w.ready)), "delivered_step": float64(w.delivered), "inspected_bytes_total": float64(1000 * w.produced)})
	var prompt, cached, sampled float64
	for _, x := range w.engine {
		running := min(len(x.requests), w.Rows)
		m := map[string]float64{"running": float64(running), "waiting": float64(len(x.requests) - running), "version": float64(x.version), "tokens_prompt": x.prompt,
			"tokens_cached": x.cached, "tokens_sampled": x.sampled, "sync_seconds": x.syncing}
		if !w.DeviceSilent {
			m["device_seconds"], m["device_calls"], m["device_rows"], m["device_row_capacity"] = x.device, x.calls, x.rows, x.capacity
		}
		w.say("engine", x.name, m)
		prompt, cached, sampled = prompt+x.prompt, cached+x.cached, sampled+x.sampled
	}
	w.say("produce", "p0", map[string]float64{"slots": float64(w.Slots), "episodes_live": float64(w.live), "leases_held": float64(w.live), "published": float64(w.published),
		"engine_wait_seconds": w.generating, "env_wait_seconds": w.stepped, "tokens_prompt": prompt, "tokens_cached": cached, "tokens_sampled": sampled})
	b := subjects.SpanBatch{Role: "trainer", Instance: "rank0", At: w.time().UnixNano()}
	b.SetSpans(w.spans)
	w.spans = nil
	w.board.Spans(&b, w.time())
}

func (w *world) say(role, instance string, values map[string]float64) {
	now := w.time().Add(time.Millisecond) // on its way
	w.board.Report(&subjects.Gauges{Role: role, Instance: instance, At: w.time().UnixNano(), Values: values}, now)
}
