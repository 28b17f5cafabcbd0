package synth

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// finished is a trajectory that waits to be published.
type finished struct {
	entry subjects.IndexEntry
	body  []byte
	fault string // why the inspector rejects it
}

// finish makes the trajectory of an episode, and publishes it.
func (w *world) finish(p *producer, e *engine, t task, f fate, start int64) {
	tr := w.trajectory(p, e, t, f, start)
	x := finished{entry: tr.Index()}
	if f.broken && len(tr.Segments) > 0 && len(tr.Segments[0].Logprobs) > 0 {
		tr.Segments[0].Logprobs[0] = 2
		x.fault = "segment 0: malformed: logprob 2 of sampled token 0"
	}
	var b bytes.Buffer
	b.Grow(tr.SizeHint())
	if err := subjects.EncodeTrajectory(&b, tr); err != nil {
		w.err = err
		return
	}
	x.body = b.Bytes()
	x.entry.Length, x.entry.Checksum = len(x.body), subjects.Checksum(x.body)
	p.publish(w, x)
	if f.twice {
		w.after(400*millisecond, func() { p.publish(w, x) })
	}
	w.telemetry.episode(w, p, e, tr)
}

// trajectory tells a story in its circumstances.
func (w *world) trajectory(p *producer, e *engine, t task, f fate, start int64) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.name, Seed: t.seed,
		Producer: p.name, Engine: e.name, Tokenizer: w.tok.ID(), Sampling: t.sampling, Status: f.status, Reason: f.reason, Reward: f.reward,
		Components: f.parts, Started: start, Finished: w.now, Token: w.signer.Token(t.Kind, t.Group, t.Slot, t.Attempt)}
	s := w.shelf.take(t.Env, t.seed, f.won, f.kind, w.rng.IntN(1<<20))
	tr.Messages = s.messages
	if !f.status.Trained() { // it ended in its first call
		tr.Messages = s.messages[:2]
		return tr
	}
	tr.Turns = make([]subjects.Turn, len(s.turns))
	tr.Segments = make([]subjects.Segment, len(s.segments))
	copy(tr.Segments, s.segments)
	each := (w.now - start) / int64(len(s.turns))
	for i := range s.turns {
		w.turn(tr, i, s.turns[i], e, start+int64(i)*each, each)
	}
	last := &tr.Turns[len(tr.Turns)-1]
	last.Stepped, last.Reward = w.now, f.reward
	return tr
}

// turn gives a turn its times, and what was sampled in it its logprobs and version.
func (w *world) turn(tr *subjects.Trajectory, i int, u subjects.Turn, e *engine, at, lasts int64) {
	u.Queued, u.Generated, u.Stepped = at, at+lasts*7/10, at+lasts*19/20
	tr.Turns[i] = u
	s := &tr.Segments[u.Segment]
	version := subjects.VersionSpan{Start: u.Completion.Start, End: u.Completion.End, Version: e.at(at + 5*millisecond)}
	later := e.at(u.Generated)
	if middle := (version.Start + version.End) / 2; later != version.Version && middle > version.Start && middle < version.End {
		s.Versions = append(s.Versions, subjects.VersionSpan{Start: version.Start, End: middle, Version: version.Version})
		version.Start, version.Version = middle, later
	}
	s.Versions = append(s.Versions, version)
	sure := 0.4 + w.skill()
	for range u.Completion.End - u.Completion.Start {
		x := w.rng.Float32()
		s.Logprobs = append(s.Logprobs, -x*x*x*3/float32(sure))
	}
}

// publish puts a trajectory into the producer's next bundle.
func (p *producer) publish(w *world, x finished) {
	p.pending = append(p.pending, x)
	if !p.flying {
		p.flying = true
		w.after(4*millisecond, func() { p.send(w) })
	}
}

const (
	bundleCount = 64
	bundleBytes = 256 << 10
)

// send publishes a bundle, and the next one when the bus has it.
func (p *producer) send(w *world) {
	if len(p.pending) == 0 {
		p.flying = false
		return
	}
	n, size := 0, 0
	for n < len(p.pending) && n < bundleCount && (n == 0 || size+len(p.pending[n].body) <= bundleBytes) {
		size += len(p.pending[n].body)
		n++
	}
	w.bundle(p, p.pending[:n])
	p.pending = append(p.pending[:0], p.pending[n:]...)
	w.decide()
	w.after(flush, func() { p.send(w) })
}

// bundle stores a message of ROLLOUTS and has the grouper and the inspector look at it.
func (w *world) bundle(p *producer, list []finished) {
	p.counter++
	first := &list[0].entry
	id := string(first.Kind) + "/" + first.ID() + "/" + first.Token
	if len(list) > 1 {
		id = fmt.Sprintf("%s/%s+%d:%s-%d", first.Kind, first.ID(), len(list)-1, p.name, p.counter)
	}
	hdr := header(jetstream.MsgIDHeader, id, subjects.HeaderProducer, p.name, subjects.HeaderCounter, strconv.FormatUint(p.counter, 10),
		subjects.HeaderLife, subjects.Life(p.life, p.stored))
	hdr = hdr[:len(hdr)-2]
	a := subjects.Admission{Producer: p.name}
	data, at := make([][]byte, len(list)), 0
	for i := range list {
		x := &list[i]
		x.entry.Offset = at
		at += len(x.body)
		data[i] = x.body
		hdr = append(x.entry.Append(append(hdr, subjects.HeaderIndex+": "...)), "\r\n"...)
		a.Arrivals = append(a.Arrivals, subjects.Arrival{Entry: x.entry})
		w.report.Statuses[string(x.entry.Status)]++
	}
	seq := w.store.add(subjects.Rollouts, w.run.RolloutSubject(p.name), w.now, append(hdr, "\r\n"...), data...)
	p.stored++
	p.counts["published"] += float64(len(list))
	w.report.Trajectories, w.report.Bundles, w.report.Bytes = w.report.Trajectories+len(list), w.report.Bundles+1, w.report.Bytes+int64(at)
	w.core.Arrive(seq, w.now, &a)
	for i := range list {
		if list[i].fault != "" {
			w.reject(seq, i, &list[i])
		}
	}
	w.core.Inspected(seq)
	w.telemetry.bundle(w, p, list)
}

// reject writes a dead letter.
func (w *world) reject(seq uint64, i int, x *finished) {
	source, n := w.run.StreamName(subjects.Rollouts), strconv.FormatUint(seq, 10)
	w.letters = w.store.add(subjects.DeadLetter, w.run.DeadLetterSubject(subjects.InspectStage), w.now, header(
		jetstream.MsgIDHeader, subjects.InspectStage+"/"+source+"/"+n+"/"+strconv.Itoa(i), subjects.HeaderReason, x.fault, subjects.HeaderSource, source,
		subjects.HeaderSequence, n, subjects.HeaderItem, strconv.Itoa(i), subjects.HeaderID, x.entry.ID()), x.body)
	w.core.Reject(subjects.Address{Seq: seq, Index: i})
}
