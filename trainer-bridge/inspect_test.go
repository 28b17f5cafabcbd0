package trainerbridge

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// spoiled are the ways in which a body can be malformed. Each makes one part of
// a bundle and says what the reason must name.
func spoiled(w *world) map[string]func() (*part, string) {
	// with changes a good trajectory before it is encoded.
	with := func(reason string, change func(t *subjects.Trajectory)) func() (*part, string) {
		return func() (*part, string) {
			t := episode(0, 1, 24)
			change(t)
			return w.part(t), reason
		}
	}
	// raw changes the bytes of a good one.
	raw := func(reason string, change func(b []byte) []byte) func() (*part, string) {
		return func() (*part, string) {
			p := w.part(episode(0, 1, 24))
			p.body = change(p.body)
			return p, reason
		}
	}
	// index changes what the index says of a good one.
	index := func(reason string, change func(e *subjects.IndexEntry)) func() (*part, string) {
		return func() (*part, string) {
			p := w.part(episode(0, 1, 24))
			change(&p.entry)
			return p, reason
		}
	}
	segment := func(t *subjects.Trajectory) *subjects.Segment { return &t.Segments[0] }
	nan := float32(math.NaN())
	return map[string]func() (*part, string){
		"unequal lengths":      with("logprobs", func(t *subjects.Trajectory) { segment(t).Logprobs = segment(t).Logprobs[1:] }),
		"logprob NaN":          with("logprob", func(t *subjects.Trajectory) { segment(t).Logprobs[2] = nan }),
		"logprob infinite":     with("logprob", func(t *subjects.Trajectory) { segment(t).Logprobs[2] = float32(math.Inf(-1)) }),
		"id out of vocabulary": with("token id", func(t *subjects.Trajectory) { segment(t).Tokens[3] = testVocab }),
		"negative id":          with("token id", func(t *subjects.Trajectory) { segment(t).Tokens[3] = -1 }),
		"mask on observed":     with("loss mask", func(t *subjects.Trajectory) { segment(t).LossMask[0].Start = 0 }),
		"span out of range":    with("version", func(t *subjects.Trajectory) { segment(t).Versions[1].End = 1000 }),
		"not msgpack":          raw("malformed", func(b []byte) []byte { return bytes.Repeat([]byte{0xc1}, len(b)) }),
		"cut short":            raw("malformed", func(b []byte) []byte { return b[:len(b)/2] }),
		"trailing bytes":       raw("malformed", func(b []byte) []byte { return append(b, 0) }),
		"absurd size":          raw("malformed", func([]byte) []byte { return []byte{0xdd, 0xff, 0xff, 0xff, 0xff, 0x01} }),
		"wrong type": raw("malformed", func(b []byte) []byte {
			return bytes.Replace(b, []byte("\xa1g\xa2t0"), []byte("\xa1g\xcd\x01\x02"), 1)
		}),
		"unknown version": raw("version", func(b []byte) []byte { return bytes.Replace(b, []byte("\xa1v\x01"), []byte("\xa1v\x7f"), 1) }),
		"ids not whole": raw("malformed", func(b []byte) []byte {
			at := bytes.Index(b, []byte("\xa3ids")) + 5
			b[at]--
			return append(b[:at+1], b[at+2:]...)
		}),
		"flipped bit": func() (*part, string) {
			p := w.part(episode(0, 1, 24))
			p.entry.Checksum = subjects.Checksum(p.body)
			p.body[len(p.body)/2] ^= 4
			return p, "checksum"
		},
		"index lies on reward": index("index entry", func(e *subjects.IndexEntry) { e.Reward = 1000 }),
		"index lies on tokens": index("index entry", func(e *subjects.IndexEntry) { e.Tokens++ }),
		"index lies on group":  index("index entry", func(e *subjects.IndexEntry) { e.Group = "t77" }),
		"index lies on status": index("index entry", func(e *subjects.IndexEntry) { e.Status = subjects.Truncated }),
		"index unreadable": func() (*part, string) {
			p := w.part(episode(0, 1, 24))
			p.index = "1 train t0 one 0"
			return p, "index"
		},
	}
}

func TestInspector_MalformedBodiesAreBuriedAndTheirNeighboursUsed(t *testing.T) {
	w := newWorld(t)
	s := w.serve(nil)
	for name, spoil := range spoiled(w) {
		bad, reason := spoil()
		before := len(w.stored(subjects.DeadLetter))
		members := w.send(w.part(episode(0, 0, 24)), bad, w.part(episode(0, 2, 30)))
		w.inspected(s, members[0].Seq)
		dead := w.stored(subjects.DeadLetter)[before:]
		if len(dead) != 1 {
			t.Fatalf("%s: %d dead letters", name, len(dead))
		}
		h := dead[0].Header
		if !strings.Contains(h.Get(subjects.HeaderReason), reason) || h.Get(subjects.HeaderItem) != "1" || h.Get(subjects.HeaderSequence) != strconv.FormatUint(members[0].Seq, 10) {
			t.Errorf("%s: reason %q, item %s, sequence %s", name, h.Get(subjects.HeaderReason), h.Get(subjects.HeaderItem), h.Get(subjects.HeaderSequence))
		}
		if !bytes.Contains(dead[0].Data, bad.body) {
			t.Errorf("%s: the original bytes are not in the dead letter", name)
		}
		w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(subjects.Step(before+1), subjects.BatchGroup{Group: "t0", Members: []subjects.Member{members[0], members[2]}})}})
	}
	c := s.dial(0)
	for range spoiled(w) {
		b, _, err := c.Next()
		w.must(err)
		if b.Rows != 2 || b.Tokens != 54 {
			t.Fatalf("step %d has %d rows, %d tokens", b.Step, b.Rows, b.Tokens)
		}
		w.must(c.Release(b))
	}
	if s.heard(Rejected) != len(spoiled(w)) {
		t.Fatalf("%d rejections told", s.heard(Rejected))
	}
}

// inspected waits until the inspector says it is past a sequence.
func (w *world) inspected(s *serving, seq uint64) {
	w.Helper()
	sub, err := w.conn.NC().SubscribeSync(testRun.InspectedSubject())
	w.must(err)
	defer sub.Unsubscribe()
	for {
		m, err := sub.NextMsgWithContext(w.ctx())
		w.must(err)
		if n, err := strconv.ParseUint(string(m.Data), 10, 64); err == nil && n >= seq {
			return
		}
	}
}

func TestInspector_MessageThatIsNoBundleIsBuriedWhole(t *testing.T) {
	w := newWorld(t)
	s := w.serve(nil)
	ack, err := w.conn.JS().Publish(w.ctx(), testRun.RolloutSubject("p"), []byte("hello"))
	w.must(err)
	w.inspected(s, ack.Sequence)
	dead := w.stored(subjects.DeadLetter)
	if len(dead) != 1 || string(dead[0].Data) != "hello" || dead[0].Header.Get(subjects.HeaderItem) != "" {
		t.Fatalf("%+v", dead)
	}
}

func TestInspector_StartedAgainBuriesNothingTwice(t *testing.T) {
	w := newWorld(t)
	bad := w.part(episode(0, 1, 24))
	bad.body[len(bad.body)/2] ^= 4
	bad.entry.Checksum = 1
	seq := w.send(w.part(episode(0, 0, 24)), bad)[0].Seq
	s := w.serve(nil)
	w.inspected(s, seq)
	w.must(s.end())
	stream, err := w.conn.JS().Stream(w.ctx(), testRun.StreamName(subjects.DeadLetter))
	w.must(err)
	info, err := stream.Info(w.ctx())
	w.must(err)
	config := info.Config
	config.Duplicates = 100 * time.Millisecond // as if the window had passed
	_, err = w.conn.JS().UpdateStream(w.ctx(), config)
	w.must(err)
	again := w.serve(nil)
	w.inspected(again, seq)
	if n := len(w.stored(subjects.DeadLetter)); n != 1 || again.heard(Rejected) != 0 {
		t.Fatalf("%d dead letters, %d told", n, again.heard(Rejected))
	}
}

func TestInspector_StartsAtTheLowMarkAndSaysSo(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 3)
	w.entry(subjects.Entry{Low: 7})
	w.inspected(w.serve(nil), 6)
}

func TestBridge_BodiesLeaveTheBusOnce(t *testing.T) {
	w := newWorld(t)
	s := w.serve(nil)
	g := w.group(1, 4)
	w.inspected(s, g.Members[0].Seq)
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, g)}})
	c := s.dial(0)
	train(t, c, 1)
	w.must(c.Close("done"))
	w.must(s.end())
	w.must(w.conn.NC().Flush())
	reports := w.stored(subjects.Telemetry)
	reports = slices.DeleteFunc(reports, func(m *nats.Msg) bool { return subjects.IsSpans(m.Subject) })
	var last subjects.Gauges
	w.must(subjects.DecodeMessage(reports[len(reports)-1].Data, &last))
	v := last.Values
	if v["fetched_bytes_total"] != 0 || v["used_bytes_total"] == 0 || v["inspected_trajectories_total"] != 4 || v["committed_step"] != 1 {
		t.Fatalf("%v", v)
	}
}

func TestBridge_BodyThatTheLogLostEndsTheRunByName(t *testing.T) {
	w := newWorld(t)
	g := w.group(1, 4)
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, g)}})
	stream, err := w.conn.JS().Stream(w.ctx(), testRun.StreamName(subjects.Rollouts))
	w.must(err)
	w.must(stream.SecureDeleteMsg(w.ctx(), g.Members[0].Seq))
	s := w.serve(nil)
	c := s.dial(0)
	if _, _, err = c.Next(); err == nil || !strings.Contains(err.Error(), "message "+strconv.FormatUint(g.Members[0].Seq, 10)) {
		t.Fatalf("%v, want the sequence named", err)
	}
	w.must(c.Close("gave up"))
	var gone *BodyError
	if err := s.end(); !errors.As(err, &gone) || gone.Step != 1 || gone.Seq != g.Members[0].Seq {
		t.Fatalf("Run returned %v", err)
	}
}

func TestBridge_BodyThatIsNotTheOneGroupedIsNamed(t *testing.T) {
	w := newWorld(t)
	g := w.group(1, 4)
	g.Members[2].Checksum ^= 1
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, g)}})
	c := w.serve(nil).dial(0)
	if _, _, err := c.Next(); err == nil || !strings.Contains(err.Error(), "trajectory 2") {
		t.Fatal(err)
	}
}

// TestBridge_RanksTakeTheirOwnRows compares the rows of two ranks with those of one host.
func TestBridge_RanksTakeTheirOwnRows(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	whole := tokensOf(w, w.serve(nil), feed.Hello{})
	s := w.serve(func(c *Config) { c.Inspect = false })
	var parts []byte
	for rank := range 2 {
		parts = append(parts, tokensOf(w, s, feed.Hello{Rank: rank, World: 2})...)
	}
	if !bytes.Equal(whole, parts) {
		t.Fatal("the ranks' rows are not the batch's")
	}
	if events := w.stored(subjects.Weights); len(events) != 4 {
		t.Fatalf("%d events, want a start and a commit of the whole and of rank 0", len(events))
	}
}

func tokensOf(w *world, s *serving, h feed.Hello) []byte {
	c, err := feed.Dial(w.ctx(), s.address, h)
	w.must(err)
	b, memory, err := c.Next()
	w.must(err)
	a := b.Arrays[0]
	if a.Name != "tokens" {
		w.Fatal(a.Name)
	}
	out := bytes.Clone(memory[a.Offset : a.Offset+4*a.Shape[0]*a.Shape[1]])
	w.must(c.Commit(feed.Commit{Step: 1}))
	w.must(c.Close("done"))
	return out
}
