package trainerbridge

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// leased gives a part the token of its lease.
func (w *world) leased(p *part) *part {
	w.Helper()
	key, err := bus.LeaseKey(w.ctx(), w.conn, testRun)
	w.must(err)
	e := &p.entry
	e.Token = subjects.LeaseToken(key, e.Kind, e.Group, e.Slot, e.Attempt)
	return p
}

func tokens(c *Config) { c.Leased = true }

// letterHeaders are the headers of the dead letters so far.
func (w *world) letterHeaders() (all []nats.Header) {
	w.Helper()
	for _, m := range w.stored(subjects.DeadLetter) {
		all = append(all, m.Header)
	}
	return all
}

func TestInspector_ForgedTrajectoriesAreNeitherOpenedNorBuried(t *testing.T) {
	w := newWorld(t)
	s := w.serve(tokens)
	forged := w.part(episode(0, 1, 24))
	forged.entry.Checksum = 1 // which nobody looks at
	w.send(forged)
	stranger := w.leased(w.part(episode(0, 2, 24)))
	stranger.entry.Slot, stranger.entry.Checksum = 3, 1
	good := w.send(w.leased(w.part(episode(0, 0, 24))))
	w.inspected(s, w.send(stranger)[0].Seq)
	if dead := w.letterHeaders(); len(dead) != 0 || s.heard(Rejected) != 0 {
		t.Errorf("dead letters %v", dead)
	}
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, subjects.BatchGroup{Group: "t0", Members: good})}})
	train(t, s.dial(0), 1)
}

func TestInspector_AnAttemptIsInspectedOnceAndBuriedOnce(t *testing.T) {
	w := newWorld(t)
	s := w.serve(tokens)
	seq := uint64(0)
	for n := range 300 {
		bad := w.leased(w.part(episode(0, 1, 24)))
		bad.body[len(bad.body)/2] ^= byte(1 + n)
		bad.entry.Checksum = 1
		seq = w.send(bad)[0].Seq
	}
	w.inspected(s, seq)
	if dead := w.letterHeaders(); len(dead) != 1 || dead[0].Get(subjects.HeaderID) != "t0/1/0" {
		t.Errorf("%d dead letters", len(dead))
	}
}

func TestInspector_WhatFitsNoBatchIsRejected(t *testing.T) {
	w := newWorld(t)
	s := w.serve(func(c *Config) { c.MaxSegments = 2 })
	long, many := episode(0, 1, 65), episode(0, 2, 24)
	many.Segments = append(forked(many).Segments, many.Segments...)
	for name, part := range map[string]*part{"buckets": w.part(long), "segments": w.part(many)} {
		before := len(w.letterHeaders())
		w.inspected(s, w.send(part)[0].Seq)
		dead := w.letterHeaders()[before:]
		if len(dead) != 1 || !strings.Contains(dead[0].Get(subjects.HeaderReason), name) {
			t.Errorf("%s: dead letters %v", name, dead)
		}
	}
	w.must(s.end())
	cut := w.serve(func(c *Config) { c.Layout.Overflow = layout.OverflowCut })
	before := len(w.letterHeaders())
	w.inspected(cut, w.send(w.part(long))[0].Seq)
	if dead := w.letterHeaders()[before:]; len(dead) != 0 {
		t.Errorf("rejected although overflow says what becomes of it: %v", dead)
	}
}

func TestInspector_WhatNobodyCanReadIsBuriedAtABoundedRate(t *testing.T) {
	w := newWorld(t)
	s := w.serve(tokens)
	garbage := bytes.Repeat([]byte("x"), letterMost+1)
	seq := uint64(0)
	for range 300 {
		ack, err := w.conn.JS().Publish(w.ctx(), testRun.RolloutSubject("p"), garbage)
		w.must(err)
		seq = ack.Sequence
	}
	w.inspected(s, seq)
	letters := w.stored(subjects.DeadLetter)
	if len(letters) != lettersFirst+2 { // and those after 128 and 256
		t.Fatalf("%d dead letters", len(letters))
	}
	if m := letters[0]; len(m.Data) != letterMost || m.Header.Get(subjects.HeaderBytes) != strconv.Itoa(len(garbage)) {
		t.Errorf("a letter of %d bytes, %q of them", len(m.Data), m.Header.Get(subjects.HeaderBytes))
	}
}

// small gives DEADLETTER a size.
func (w *world) small(bytes int64) {
	w.Helper()
	stream, err := w.conn.JS().Stream(w.ctx(), testRun.StreamName(subjects.DeadLetter))
	w.must(err)
	config := stream.CachedInfo().Config
	config.MaxBytes = bytes
	_, err = w.conn.JS().UpdateStream(w.ctx(), config)
	w.must(err)
}

func TestInspector_AFullDeadLetterStreamTakesLettersWithoutTheirBodies(t *testing.T) {
	w := newWorld(t)
	w.small(64 << 10)
	s := w.serve(tokens)
	seq := uint64(0)
	for n := range 40 {
		bad := w.leased(w.part(episode(n, 1, 300)))
		bad.entry.Checksum = 1
		seq = w.send(bad)[0].Seq
	}
	w.inspected(s, seq)
	letters := w.stored(subjects.DeadLetter)
	whole, empty := 0, 0
	for _, m := range letters {
		switch n := m.Header.Get(subjects.HeaderBytes); {
		case n == "" && len(m.Data) > 0:
			whole++
		case n != "" && len(m.Data) == 0:
			empty++
		}
	}
	if len(letters) != 40 || whole == 0 || empty == 0 || whole+empty != 40 {
		t.Errorf("%d letters, %d whole, %d without a body", len(letters), whole, empty)
	}
}

func TestInspector_AFullDeadLetterStreamLosesTheOldestThatNobodyNeeds(t *testing.T) {
	w := newWorld(t)
	w.small(12 << 10)
	s := w.serve(tokens)
	spoil := func(group int) uint64 {
		bad := w.leased(w.part(episode(group, 1, 24)))
		bad.entry.Checksum = 1
		return w.send(bad)[0].Seq
	}
	for n := range 60 {
		seq := spoil(n)
		w.inspected(s, seq)
		w.entry(subjects.Entry{Low: max(seq, 6) - 5}) // the last five are needed
	}
	letters := w.letterHeaders()
	kept := map[string]bool{}
	for _, h := range letters {
		kept[h.Get(subjects.HeaderID)] = true
	}
	for n := 55; n < 60; n++ {
		if !kept[fmt.Sprintf("t%d/1/0", n)] {
			t.Errorf("the letter of group %d is gone", n)
		}
	}
	if len(letters) >= 60 || kept["t0/1/0"] {
		t.Errorf("%d letters, the first of them there: %v", len(letters), kept["t0/1/0"])
	}
}

// TestInspector_WaitsWhereEveryLetterIsNeeded and goes on when somebody makes room.
func TestInspector_WaitsWhereEveryLetterIsNeeded(t *testing.T) {
	w := newWorld(t)
	w.small(4 << 10)
	s := w.serve(tokens)
	seq := uint64(0)
	for n := range 30 {
		bad := w.leased(w.part(episode(n, 1, 24)))
		bad.entry.Checksum = 1
		seq = w.send(bad)[0].Seq
	}
	for state := new(subjects.Gauges); state.Values["letters_without_body_total"] < 2; {
		for _, m := range w.stored(subjects.Telemetry) {
			w.must(subjects.DecodeMessage(m.Data, state))
		}
	}
	if s.heard(Rejected) == 30 {
		t.Fatal("30 letters in 4 KiB")
	}
	w.small(1 << 20)
	w.inspected(s, seq)
	if n := len(w.letterHeaders()); n != 30 {
		t.Errorf("%d letters", n)
	}
}
