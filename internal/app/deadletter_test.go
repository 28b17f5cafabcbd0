package app

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

// dead is a run on a real server, looked at from outside.
type dead struct {
	*member
	t       *testing.T
	ctx     context.Context
	source  Source
	counter int
	head    uint64
}

func newDead(t *testing.T) *dead {
	server := natstest.InProcess(t)
	conn := natstest.Connect(t, server)
	r, err := recipe.Parse("lake.yaml", []byte(malformedRecipe))
	if err != nil {
		t.Fatal(err)
	}
	d := &dead{t: t, ctx: limited(t), source: Source{Bus: server.Options(), Remote: true, Log: zerolog.Nop()}}
	d.must(bus.EnsureStreams(d.ctx, conn, testRun, subjects.StreamOptions{}))
	d.must(createRecord(d.ctx, conn, testRun, r))
	d.member, err = join(d.ctx, conn, testRun, zerolog.Nop())
	d.must(err)
	return d
}

func (d *dead) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// episode is a sound trajectory.
func (d *dead) episode(group string, slot, attempt int) *subjects.Trajectory {
	return &subjects.Trajectory{Kind: subjects.Train, Group: subjects.GroupID(group), Slot: subjects.Slot(slot), Attempt: subjects.Attempt(attempt),
		Environment: "frozenlake", Producer: "p1", Status: subjects.Succeeded, Reward: float64(slot % 2), Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{3, 4, 5, 6},
			Logprobs: []float32{-1, -2}, LossMask: []subjects.Span{{Start: 2, End: 4}}, Versions: []subjects.VersionSpan{{Start: 2, End: 4, Version: 1}}}}}
}

// publish sends trajectories as one bundle of p1; spoil changes the first's body.
func (d *dead) publish(spoil func([]byte) []byte, all ...*subjects.Trajectory) uint64 {
	d.t.Helper()
	d.counter++
	hdr, data := nats.Header{subjects.HeaderProducer: {"p1"}, subjects.HeaderCounter: {strconv.Itoa(d.counter)}}, []byte(nil)
	for i, t := range all {
		body, e := encoded(d.t, t), t.Index()
		if i == 0 && spoil != nil {
			body = spoil(body)
		}
		e.Offset, e.Length, e.Checksum = len(data), len(body), subjects.Checksum(body)
		d.must(d.sign(d.ctx, &e))
		hdr[subjects.HeaderIndex] = append(hdr[subjects.HeaderIndex], e.String())
		data = append(data, body...)
	}
	ack, err := d.conn.JS().PublishMsg(d.ctx, &nats.Msg{Subject: testRun.RolloutSubject("p1"), Header: hdr, Data: data})
	d.must(err)
	return ack.Sequence
}

// bury is an inspector that rejects one trajectory.
func (d *dead) bury(seq uint64, item int, id string, data []byte, reason string) uint64 {
	d.t.Helper()
	n, err := bus.Bury(d.ctx, d.conn, testRun, bus.DeadLetter{Stage: subjects.InspectStage, Reason: reason,
		Source: testRun.StreamName(subjects.Rollouts), Sequence: seq, Item: item, ID: id, Data: data})
	d.must(err)
	return n
}

func (d *dead) entry(e subjects.Entry) {
	d.t.Helper()
	data, err := subjects.EncodeMessage(&e)
	d.must(err)
	d.head, err = bus.Append(d.ctx, d.conn, testRun.LedgerSubject(), nil, data, d.head)
	d.must(err)
}

func TestDeadLetters_AreListedByStageProducerAndReason(t *testing.T) {
	d := newDead(t)
	body := encoded(t, d.episode("t0", 1, 0))
	seq := d.publish(nil, d.episode("t0", 0, 0), d.episode("t0", 1, 0))
	one := d.bury(seq, 1, "t0/1/0", body, "logprob NaN")
	two := d.bury(99, bus.WholeMessage, "", bytes.Repeat(body, 40_000), "Malformed message") // in parts
	_, err := bus.Bury(d.ctx, d.conn, testRun, bus.DeadLetter{Stage: "produce", Reason: "task cannot be read", Source: testRun.StreamName(subjects.Tasks), Sequence: 1, Item: bus.WholeMessage, Data: []byte("x")})
	d.must(err)
	for name, c := range map[string]struct {
		filter LetterFilter
		want   int
	}{
		"all": {LetterFilter{}, 3}, "stage": {LetterFilter{Stage: "produce"}, 1}, "producer": {LetterFilter{Producer: "p1"}, 1},
		"reason": {LetterFilter{Reason: "MALFORMED"}, 1}, "number": {LetterFilter{Numbers: []uint64{one}}, 1}, "none": {LetterFilter{Producer: "p2"}, 0},
	} {
		got, err := DeadLetters(d.ctx, d.source, testRun, c.filter)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	all, err := DeadLetters(d.ctx, d.source, testRun, LetterFilter{})
	d.must(err)
	if l := all[0]; l.Number != one || l.Trajectory != "t0/1/0" || l.Producer != "p1" || l.Bytes != len(body) || l.Item != 1 || l.Sequence != seq {
		t.Errorf("%+v", l)
	}
	if l := all[1]; l.Number != two || l.Bytes != 40_000*len(body) || l.Item != bus.WholeMessage {
		t.Errorf("%+v", l)
	}
	if _, err := DeadLetters(d.ctx, d.source, testRun, LetterFilter{Numbers: []uint64{77}}); err == nil || !strings.Contains(err.Error(), "no dead letter 77") {
		t.Error(err)
	}
}

func TestShowLetter_DecodesAsFarAsItGoesAndWithoutTheBodyReadsRollouts(t *testing.T) {
	d := newDead(t)
	spoil := func(b []byte) []byte {
		at := bytes.Index(b, []byte("\xa2lp")) + 3
		b[at] = 0xc1
		return b
	}
	bad := spoil(encoded(t, d.episode("t0", 0, 0)))
	seq := d.publish(spoil, d.episode("t0", 0, 0), d.episode("t0", 1, 0))
	n := d.bury(seq, 0, "t0/0/0", bad, "type byte 0xc1")
	check := func(from string) {
		t.Helper()
		l, err := ShowLetter(d.ctx, d.source, testRun, n)
		d.must(err)
		if !bytes.Equal(l.Raw, bad) || !strings.HasPrefix(l.From, from) || l.FaultAt != bytes.IndexByte(bad, 0xc1) || l.Decoded == nil || l.Decoded.Environment != "frozenlake" || !strings.Contains(l.Now, "0xc1") {
			t.Errorf("%+v", l)
		}
	}
	check("the letter")
	_, err := DropLetters(d.ctx, d.source, testRun, LetterFilter{Numbers: []uint64{n}})
	d.must(err)
	all, err := DeadLetters(d.ctx, d.source, testRun, LetterFilter{Dropped: true})
	d.must(err)
	if n = all[0].Number; len(all) != 1 || all[0].Dropped.IsZero() {
		t.Fatalf("%+v", all)
	}
	check("message " + strconv.FormatUint(seq, 10))
	d.must(bus.Purge(d.ctx, d.conn, testRun, subjects.Rollouts, seq+1))
	l, err := ShowLetter(d.ctx, d.source, testRun, n)
	if err != nil || l.From != "" || len(l.Raw) > 0 || l.Producer != "p1" || !strings.Contains(l.Now, "purged") {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestRequeue_SaysWhatBecomesOfItAndPublishesWhatPassesOnce(t *testing.T) {
	d := newDead(t)
	d.entry(subjects.Entry{Issued: []subjects.Issue{{Kind: subjects.Train, Count: 3}}, Low: 1})
	d.entry(subjects.Entry{Low: 1, Retries: []subjects.Retry{{Kind: subjects.Train, Group: "t1", Slot: 2, Attempt: 1}},
		Verdicts: []subjects.Verdict{{Group: "t0", Outcome: subjects.Kept}}, Batches: []subjects.Batch{{Step: 1, Groups: []subjects.BatchGroup{{Group: "t0"}}}}})
	spoil := func(b []byte) []byte { return b[:len(b)-1] }
	cases := []struct {
		seq      uint64
		item     int
		id, says string
		fault    bool
		attempt  subjects.Attempt
	}{
		{d.publish(nil, d.episode("t0", 1, 0)), 0, "t0/1/0", "trained in step 1: it will be counted as late", false, 0},
		{d.publish(nil, d.episode("t1", 2, 0)), 0, "t1/2/0", "takes slot 2 unless attempt 1", false, 1},
		{d.publish(nil, d.episode("t1", 3, 0)), 0, "t1/3/0", "no newer one is handed out", true, 0},
		{d.publish(spoil, d.episode("t2", 0, 0)), 0, "t2/0/0", "malformed", true, 0},
		{d.publish(nil, d.episode("t9", 0, 0)), bus.WholeMessage, "t9/0/0", "never issued", false, 0},
		{9999, 0, "", "purged", true, 0},
	}
	for _, c := range cases {
		d.bury(c.seq, c.item, c.id, []byte("x"), "a build that was too strict")
	}
	said := 0
	options := RequeueOptions{Before: func(r Requeued) { said++ }}
	first, err := RequeueLetters(d.ctx, d.source, testRun, options)
	d.must(err)
	again, err := RequeueLetters(d.ctx, d.source, testRun, options)
	d.must(err)
	if len(first) != len(cases) || said != 6 {
		t.Fatalf("%d results, %d said", len(first), said)
	}
	for i, c := range cases {
		r := first[i]
		if (r.Fault != "") != c.fault || !strings.Contains(r.Fault+r.Outlook, c.says) || (r.Sequence == 0) != c.fault || r.Before || again[i].Sequence != r.Sequence || !c.fault && !again[i].Before {
			t.Errorf("%s: %+v, then %+v", c.id, r, again[i])
		}
		if c.fault {
			continue
		}
		b := d.bundle(r.Sequence)
		if e := &b.Items[0].Entry; b.Items[0].Err != nil || b.Producer != subjects.RequeueProducer || e.Attempt != c.attempt || e.ID() != r.Trajectory {
			t.Errorf("%s: published as %+v", c.id, b.Items[0])
		} else if _, err := subjects.Inspect(b.Body(0), e, d.tok.VocabSize()); err != nil {
			t.Errorf("%s: the inspector would refuse it again: %v", c.id, err)
		}
	}
	letters, err := DeadLetters(d.ctx, d.source, testRun, LetterFilter{})
	if err != nil || len(letters) != len(cases) || len(letters[0].Requeued) != 1 || letters[2].Requeued != nil {
		t.Errorf("%+v, %v", letters, err)
	}
}

// bundle reads a message of ROLLOUTS, which the gate must let pass.
func (d *dead) bundle(seq uint64) (b *bus.Bundle) {
	d.t.Helper()
	key, err := d.leaseKey(d.ctx)
	d.must(err)
	m, err := bus.Read(d.ctx, d.conn, testRun.StreamName(subjects.Rollouts), seq)
	d.must(err)
	if a := subjects.NewGate(testRun, key).Admit(m.Subject, m.Header); a.Err != nil {
		d.t.Errorf("message %d: %v", seq, a.Err)
	}
	b, err = bus.OpenBundle(seq, m.Header, m.Data)
	d.must(err)
	return b
}

// tell says for the inspector how far it is, until ctx ends.
func (d *dead) tell(ctx context.Context) error {
	for {
		state, err := bus.StreamState(ctx, d.conn, testRun, subjects.Rollouts)
		if err == nil {
			err = d.announce(ctx, state.LastSeq)
		}
		if err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// await polls the ledger until ok says so.
func (d *dead) await(what string, ok func(e *subjects.Entry) bool) {
	d.t.Helper()
	err := bus.Follow(d.ctx, d.conn, testRun.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		if ok(&e) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		d.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// announce is the inspector's word.
func (d *dead) announce(ctx context.Context, seq uint64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.conn.NC().Publish(testRun.InspectedSubject(), strconv.AppendUint(nil, seq, 10))
}

// grouper runs one until the returned function is called.
func (d *dead) grouper(name string) (stop func()) {
	ctx, cancel := context.WithCancel(d.ctx)
	done := make(chan error, 1)
	go func() { done <- d.group(ctx, name) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				d.t.Error(err)
			}
		}
	}
	d.t.Cleanup(stop)
	return stop
}

// TestDropLetters_ARestartedGrouperStillKnowsWhatWasRejected drops the letter of
// a group that is undecided, and requeues another: neither a new grouper nor the
// old one takes what was rejected, and the requeued one takes its slot.
func TestDropLetters_ARestartedGrouperStillKnowsWhatWasRejected(t *testing.T) {
	d := newDead(t)
	stop := d.grouper("first")
	d.await("the first groups", func(e *subjects.Entry) bool { return len(e.Issued) > 0 })
	var all []*subjects.Trajectory
	for slot := range 4 {
		all = append(all, d.episode("t0", slot, 0))
	}
	seq := d.publish(nil, all...)
	sound := d.bury(seq, 1, "t0/1/0", []byte("x"), "a build that was too strict")
	d.bury(seq, 2, "t0/2/0", []byte("x"), "malformed")
	d.must(d.announce(d.ctx, seq))
	retried := 0
	d.await("two retries", func(e *subjects.Entry) bool { retried += len(e.Retries); return retried == 2 })
	stop()

	dropped, err := DropLetters(d.ctx, d.source, testRun, LetterFilter{})
	if err != nil || len(dropped) != 2 {
		t.Fatalf("%+v, %v", dropped, err)
	}
	if left, err := DeadLetters(d.ctx, d.source, testRun, LetterFilter{}); err != nil || len(left) != 0 {
		t.Fatalf("%+v, %v", left, err)
	}
	d.grouper("second")
	ctx, cancel := context.WithCancel(d.ctx)
	told := make(chan error, 1)
	go func() { told <- d.tell(ctx) }()
	defer func() {
		cancel()
		d.must(<-told)
	}()
	results, err := RequeueLetters(d.ctx, d.source, testRun, RequeueOptions{LetterFilter: LetterFilter{Numbers: []uint64{sound}}})
	if err != nil || len(results) != 1 || results[0].Trajectory != "t0/1/1" || results[0].Sequence == 0 {
		t.Fatalf("%+v, %v", results, err)
	}
	d.publish(nil, d.episode("t0", 2, 1))
	d.await("the verdict", func(e *subjects.Entry) bool {
		for _, v := range e.Verdicts {
			if v.Group != "t0" {
				continue
			}
			for _, m := range v.Members {
				if retried := m.Slot == 1 || m.Slot == 2; (m.Attempt == 1) != retried || m.Slot == 1 && m.Seq != results[0].Sequence {
					t.Errorf("group closed with %+v", m)
				}
			}
			return len(v.Members) == 4
		}
		return false
	})
	report, err := Audit(d.ctx, d.source, testRun, audit.Options{})
	if err != nil {
		t.Errorf("%v: %+v", err, report)
	}
}

func TestDropLetters_AFullStreamGivesUpWhatNoOpenGroupNeeds(t *testing.T) {
	d := newDead(t)
	d.entry(subjects.Entry{Low: 10})
	st, err := d.conn.JS().Stream(d.ctx, testRun.StreamName(subjects.DeadLetter))
	d.must(err)
	cfg := st.CachedInfo().Config
	cfg.MaxBytes = 64 << 10
	_, err = d.conn.JS().UpdateStream(d.ctx, cfg)
	d.must(err)
	decided := d.bury(9, 0, "t0/0/0", make([]byte, 60<<10), "malformed")
	undecided := d.bury(11, 0, "t5/0/0", nil, "malformed")
	for seq := uint64(100); err == nil; seq++ {
		_, err = bus.Bury(d.ctx, d.conn, testRun, bus.DeadLetter{Stage: subjects.InspectStage, Reason: "filler", Source: testRun.StreamName(subjects.Rollouts), Sequence: seq, Item: 0})
	}
	if !errors.Is(err, bus.ErrStreamFull) {
		t.Fatal(err)
	}
	_, err = DropLetters(d.ctx, d.source, testRun, LetterFilter{Numbers: []uint64{undecided}})
	if !errors.Is(err, bus.ErrStreamFull) || !strings.Contains(err.Error(), "drop an older one first") {
		t.Errorf("dropped what an open group needs from a full stream: %v", err)
	}
	dropped, err := DropLetters(d.ctx, d.source, testRun, LetterFilter{Numbers: []uint64{decided, undecided}})
	if err != nil || len(dropped) != 2 {
		t.Errorf("%+v, %v", dropped, err)
	}
	stubs := 0
	d.must(bus.Letters(d.ctx, d.conn, testRun, func(l *bus.Letter) error {
		if !l.Dropped.IsZero() && l.Replaced == 1 && (l.Number == decided && l.Sequence == 9 || l.Number == undecided && l.Sequence == 11) {
			stubs++
		}
		return nil
	}))
	if stubs != 2 {
		t.Errorf("%d stubs", stubs)
	}
}
