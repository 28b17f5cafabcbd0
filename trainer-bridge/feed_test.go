package trainerbridge

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

func TestBridge_FeedsEveryStepThenTheEndOfTheRun(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 5)
	w.entry(subjects.Entry{End: subjects.EndDataset, EndText: "all 5 groups"})
	s := w.serve(nil)
	c := s.dial(0)
	if c.Welcome.StartStep != 1 || c.Welcome.Incarnation != 1 || c.Welcome.Run != testRun {
		t.Fatalf("%+v", c.Welcome)
	}
	train(t, c, 5)
	for range 2 {
		var end *feed.EndError
		if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != subjects.EndDataset || end.Text != "all 5 groups" || end.Steps != 5 {
			t.Fatalf("%v, want the end", err)
		}
	}
	w.must(c.Close("done"))
	w.must(s.end())
}

func TestBridge_MaxStepsEndsTheFeed(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 3)
	c := w.serve(func(c *Config) { c.MaxSteps = 2 }).dial(0)
	train(t, c, 2)
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != "complete" {
		t.Fatalf("%v, want complete", err)
	}
}

func TestBridge_BatchHoldsItsGroupsRows(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	c := w.serve(nil).dial(0)
	b, memory, err := c.Next()
	w.must(err)
	if b.Rows != 9 || len(b.Groups) != 2 || b.Groups[1].Rows != [2]int{4, 5} || b.Arrays[0].Shape[0] != 16 {
		t.Fatalf("%d rows, %+v, %+v", b.Rows, b.Groups, b.Arrays)
	}
	first := episode(2, 0, 20+2*13).Segments[0].Tokens
	tokens := memory[b.Arrays[0].Offset:]
	for i, id := range first {
		if got := int32(tokens[4*i]) | int32(tokens[4*i+1])<<8; got != id {
			t.Fatalf("token %d is %d, not %d", i, got, id)
		}
	}
}

func TestBridge_ReportsBecomeEvents(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 2)
	s := w.serve(nil)
	c := s.dial(0)
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "w.safetensors"), make([]byte, 100), 0o600))
	files := []subjects.File{{Name: "w.safetensors", Bytes: 100, SHA256: strings.Repeat("a", 64)}}
	w.must(c.Weights(feed.Weights{Version: 0, Dir: dir, Format: "safetensors", Files: files}))
	train(t, c, 2)
	w.must(c.Checkpointed(feed.Checkpointed{Step: 2, Path: "ckpt/2"}))
	w.must(c.Weights(feed.Weights{Version: 2, Step: 2, Dir: dir, Format: "safetensors", Files: files}))
	for name, refused := range map[string]error{
		"commit twice":         c.Commit(feed.Commit{Step: 2}),
		"commit ahead":         c.Commit(feed.Commit{Step: 3}),
		"checkpoint ahead":     c.Checkpointed(feed.Checkpointed{Step: 3}),
		"version ahead":        c.Weights(feed.Weights{Version: 3, Dir: dir, Files: files}),
		"file missing":         c.Weights(feed.Weights{Version: 2, Dir: t.TempDir(), Files: files}),
		"file of another size": c.Weights(feed.Weights{Version: 2, Dir: dir, Files: []subjects.File{{Name: "w.safetensors", Bytes: 99, SHA256: strings.Repeat("a", 64)}}}),
		"file outside":         c.Weights(feed.Weights{Version: 2, Dir: dir, Files: []subjects.File{{Name: "../x", SHA256: strings.Repeat("a", 64)}}}),
		"no files":             c.Weights(feed.Weights{Version: 2, Dir: dir}),
	} {
		if !errors.Is(refused, feed.ErrRefused) {
			t.Errorf("%s: %v, want a refusal", name, refused)
		}
	}
	var got []string
	for _, m := range w.stored(subjects.Weights) {
		got = append(got, strings.TrimPrefix(m.Subject, "hr.lake.weights."))
	}
	if want := []string{"resumed", "version", "commit", "commit", "checkpoint", "version"}; !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	if s.heard(Committed) != 2 || s.heard(Published) != 2 || s.heard(Checkpointed) != 1 {
		t.Fatal("not all events were told")
	}
}

func TestBridge_StreamTransportGivesTheSameBytes(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 4)
	s := w.serve(func(c *Config) { c.Listen = append(c.Listen[:0], "tcp:127.0.0.1:0"); c.Token = "secret" })
	if _, err := s.tryDial(0); !errors.Is(err, feed.ErrRefused) {
		t.Fatalf("without the token: %v", err)
	}
	c, err := feed.Dial(w.ctx(), s.address, feed.Hello{Token: "secret"})
	w.must(err)
	over := train(t, c, 4)
	w.must(c.Close("done"))
	if c.Welcome.Transport != feed.Stream {
		t.Fatal(c.Welcome.Transport)
	}
	if local := train(t, w.serve(func(c *Config) { c.Inspect = false }).dial(0), 4); !slices.Equal(over, local) {
		t.Fatalf("%v over TCP, %v in memory", over, local)
	}
}

// TestBridge_ResumeGivesTheSameBytes takes every step of a run from every
// checkpoint, with the cache warm, gone, and in every layout.
func TestBridge_ResumeGivesTheSameBytes(t *testing.T) {
	const steps = 5
	w := newWorld(t)
	w.steps(1, steps)
	incarnation := 0
	for _, kind := range []layout.Kind{layout.Padded, layout.Packed, layout.PromptCompletion} {
		var first []string
		for _, cache := range []int{1 << 20, 1} {
			s := w.serve(func(c *Config) {
				c.CacheBytes, c.Layout.Layout, c.Layout.RowTokens, c.Layout.PromptTokens = cache, kind, 128, 32
			})
			for k := range steps {
				c := s.dial(k)
				if incarnation++; c.Welcome.Incarnation != incarnation {
					t.Fatalf("incarnation %d, want %d", c.Welcome.Incarnation, incarnation)
				}
				digests := train(t, c, steps-k)
				w.must(c.Abort())
				if first == nil {
					first = digests
				}
				if !slices.Equal(digests, first[k:]) {
					t.Fatalf("%s from step %d: %v, want %v", kind, k+1, digests, first[k:])
				}
			}
			w.must(s.end())
		}
	}
}

func TestBridge_CheckpointOfAnotherRunIsRefused(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 2)
	if _, err := w.serve(nil).tryDial(40); !errors.Is(err, feed.ErrRefused) || !strings.Contains(err.Error(), "ends at 2") {
		t.Fatal(err)
	}
}

// TestBridge_TrainerKilledAtAnyPointLosesNothing cuts the connection at each
// point of the protocol and connects again from the checkpoint.
func TestBridge_TrainerKilledAtAnyPointLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 3)
	s := w.serve(nil)
	c := s.dial(0)
	want := train(t, c, 3)
	w.must(c.Abort())
	raw := func(c *feed.Client, kind feed.Type, body any) {
		frame, err := feed.Append(nil, kind, body, 0)
		w.must(err)
		_, err = c.Conn().Write(frame)
		w.must(err)
	}
	next := func(c *feed.Client) *feed.Batch {
		b, _, err := c.Next()
		w.must(err)
		return b
	}
	for name, point := range map[string]func(c *feed.Client){
		"welcomed":      func(*feed.Client) {},
		"asking":        func(c *feed.Client) { raw(c, feed.TypeNext, feed.Request{ID: 1}) },
		"with a batch":  func(c *feed.Client) { next(c) },
		"released":      func(c *feed.Client) { w.must(c.Release(next(c))) },
		"committing":    func(c *feed.Client) { next(c); raw(c, feed.TypeCommit, feed.Commit{ID: 9, Step: 1}) },
		"committed":     func(c *feed.Client) { train(t, c, 1) },
		"checkpointing": func(c *feed.Client) { train(t, c, 1); raw(c, feed.TypeCheckpointed, feed.Checkpointed{ID: 9, Step: 1}) },
		"waiting": func(c *feed.Client) {
			raw(c, feed.TypeWaitWeights, feed.WaitWeights{ID: 1, Need: feed.NeedAll, TimeoutS: 60})
		},
		"half a frame":  func(c *feed.Client) { _, err := c.Conn().Write([]byte("HRF1")); w.must(err) },
		"past the last": func(c *feed.Client) { train(t, c, 3); raw(c, feed.TypeNext, feed.Request{ID: 99}) },
	} {
		c := s.dial(0)
		point(c)
		w.must(c.Abort())
		again := s.dial(0)
		if got := train(t, again, 3); !slices.Equal(got, want) {
			t.Fatalf("after a kill %s: %v, want %v", name, got, want)
		}
		w.must(again.Close("done"))
	}
}

func TestBridge_SecondTrainerOfARankIsRefusedWhileTheFirstLives(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 2)
	s := w.serve(nil)
	c := s.dial(0)
	if _, err := s.tryDial(0); !errors.Is(err, feed.ErrRefused) || !strings.Contains(err.Error(), "alive") {
		t.Fatal(err)
	}
	train(t, c, 2)
}

// TestBridge_BrokenFramesEndOnlyTheirConnection sends what no client should.
func TestBridge_BrokenFramesEndOnlyTheirConnection(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	s := w.serve(nil)
	enc := func(kind feed.Type, body any) []byte {
		b, err := feed.Append(nil, kind, body, 0)
		w.must(err)
		return b
	}
	for name, bad := range map[string][]byte{
		"not a frame":     []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a bridge's":      enc(feed.TypeBatch, feed.Batch{}),
		"second hello":    enc(feed.TypeHello, feed.Hello{V: 1}),
		"slot not held":   enc(feed.TypeRelease, feed.Release{Slot: 0}),
		"slot unknown":    enc(feed.TypeRelease, feed.Release{Slot: 99}),
		"wrong types":     enc(feed.TypeCommit, map[string]string{"step": "one"}),
		"next of nothing": enc(feed.TypeNext, map[string]string{"id": "x"}),
	} {
		c := s.dial(0)
		_, err := c.Conn().Write(bad)
		w.must(err)
		if _, _, err = c.Next(); err == nil {
			_, _, err = c.Next()
		}
		if !errors.Is(err, feed.ErrRefused) && !disconnected(err) {
			t.Errorf("%s: %v", name, err)
		}
		w.must(c.Abort())
	}
	for name, hello := range map[string]feed.Hello{"rank": {Rank: 2, World: 2}, "transport": {Transport: "carrier pigeon"}} {
		if _, err := feed.Dial(w.ctx(), s.address, hello); !errors.Is(err, feed.ErrRefused) {
			t.Errorf("hello with a bad %s: %v", name, err)
		}
	}
	train(t, s.dial(0), 1)
}

func disconnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || strings.Contains(fmt.Sprint(err), "EOF")
}

func TestBridge_DrainTellsTheTrainerAndStillTakesItsReports(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	s := w.serve(nil)
	c := s.dial(0)
	train(t, c, 1)
	asked := make(chan error, 1)
	go func() {
		_, _, err := c.Next()
		asked <- err
	}()
	s.stop()
	var end *feed.EndError
	if err := <-asked; !errors.As(err, &end) || end.Reason != "drained" {
		t.Fatalf("%v, want drained", err)
	}
	w.must(c.Checkpointed(feed.Checkpointed{Step: 1, Path: "ckpt"}))
	w.must(c.Close("drained"))
	w.must(s.end())
	all := w.stored(subjects.Weights)
	if last := all[len(all)-1]; last.Subject != testRun.WeightsSubject(subjects.EventCheckpoint) {
		t.Fatalf("last event is %s", last.Subject)
	}
}

func TestBridge_ReportsSentBeforeByeReachTheBus(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	s := w.serve(nil)
	c := s.dial(0)
	_, _, err := c.Next()
	w.must(err)
	for _, f := range []struct {
		kind feed.Type
		body any
	}{{feed.TypeWaitWeights, feed.WaitWeights{ID: 2, Need: feed.NeedAll, TimeoutS: 3600}}, {feed.TypeCommit, feed.Commit{ID: 3, Step: 1}}} {
		frame, err := feed.Append(nil, f.kind, f.body, 0)
		w.must(err)
		_, err = c.Conn().Write(frame)
		w.must(err)
	}
	w.must(c.Close("in a hurry"))
	w.must(s.end())
	if s.heard(Committed) != 1 {
		t.Fatal("the commit got lost")
	}
}

func TestBridge_WaitingTrainerIsToldForWhat(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	s := w.serve(func(c *Config) { c.stallEvery = time.Millisecond })
	c := s.dial(0)
	train(t, c, 1)
	told := make(chan string, 1)
	c.OnNotice = func(n feed.Notice) {
		select {
		case told <- n.Text:
		default:
		}
	}
	go func() {
		if text := <-told; !strings.Contains(text, "step 2") {
			t.Errorf("told %q", text)
		}
		s.stop()
	}()
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) {
		t.Fatal(err)
	}
}

func TestBridge_TrainerThatHoldsEverySlotIsToldSo(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 4)
	c := w.serve(func(c *Config) { c.stallEvery = time.Millisecond }).dial(0)
	var held []*feed.Batch
	for range 3 {
		b, _, err := c.Next()
		w.must(err)
		held = append(held, b)
	}
	c.OnNotice = func(n feed.Notice) {
		if len(held) > 0 && strings.Contains(n.Text, "holds all 3") {
			w.must(c.Release(held[0]))
			held = nil
		}
	}
	b, _, err := c.Next()
	w.must(err)
	if b.Step != 4 || held != nil {
		t.Fatalf("step %d", b.Step)
	}
}

// TestBridge_BodiesOverMaxPayloadArriveWhole uses the real publisher, which cuts
// such a body into parts.
func TestBridge_BodiesOverMaxPayloadArriveWhole(t *testing.T) {
	const tokens = 20_000
	w := newWorldOn(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: 64 << 10}))
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: testRun, Producer: "p"})
	group := subjects.BatchGroup{Group: "t0"}
	for slot := range 2 {
		at, err := p.Publish(w.ctx(), episode(0, slot, tokens))
		w.must(err)
		body := w.part(episode(0, slot, tokens))
		body.entry.Length, body.entry.Checksum = len(body.body), subjects.Checksum(body.body)
		group.Members = append(group.Members, member(body.entry, at))
	}
	w.must(p.Close(w.ctx()))
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, group)}})
	var digests []string
	for _, inspect := range []bool{true, false} {
		s := w.serve(func(c *Config) { c.Inspect, c.Layout.Buckets = inspect, []int{tokens} })
		if inspect {
			w.inspected(s, group.Members[1].Seq)
		}
		c := s.dial(0)
		digests = append(digests, train(t, c, 1)...)
		w.must(c.Close("done"))
		w.must(s.end())
		if s.heard(Rejected) != 0 {
			t.Fatal("a body in parts was rejected")
		}
	}
	if digests[0] != digests[1] {
		t.Fatal("inspected and fetched bodies differ")
	}
}
