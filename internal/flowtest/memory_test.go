//go:build whole

package flowtest

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// The bounds of docs/operations.md. Go's collector lets the heap grow to twice
// what is live, so what is live counts twice; rings are not its business.
const (
	mib      = 1 << 20
	fixed    = 96 * mib // runtime, code, connection, what is small
	follower = 64 * mib // two pulls of bodies: 2 x max(32 MiB, 4 x max_payload)
	fetcher  = 32 * mib // FetchConfig.WindowBytes
	headers  = 32 * mib // two pulls of headers and the slices that are queued
)

func (s *spec) ring() int {
	return 2 * layout.Config{Buckets: []int{s.Bucket}, Rows: s.Rows, MaxRows: s.Rows}.SlotBytes()
}

// bridgeBound is that of a bridge whose largest body has body bytes.
func (s *spec) bridgeBound(body int) int {
	return fixed + s.ring() + 2*(s.CacheBytes+s.CacheBytes/4+follower+fetcher+body)
}

// producerBound is that of a producer whose largest trajectory takes so many
// bytes, encoded: it is held as it grows, with the engine's answer, and encoded.
func producerBound(slots, trajectory, held int) int {
	return fixed + 2*(slots*3*trajectory+max(held, trajectory))
}

// serverBound is that of the server: what is on its way to readers of bodies and
// from producers, and what was stored in the last seconds: its file store keeps
// blocks of 8 MiB in memory for ten seconds after the last look at them.
func serverBound(readers, stored int, took time.Duration) int {
	const window, keeps = 16 * mib, 20 * time.Second // twice, since no rate is even
	return fixed + 2*(readers*follower+window+int(float64(stored)*min(1, keeps.Seconds()/took.Seconds())))
}

const grouperBound = fixed + 2*headers

// TestMemory_OneHugeBodyAndOneLongTrajectory sends a body of 64 MB and a
// trajectory of 150,000 tokens through processes of their own, on servers whose
// messages hold 1 MB and 8 MB.
func TestMemory_OneHugeBodyAndOneLongTrajectory(t *testing.T) {
	for _, payload := range []int32{1 * mib, 8 * mib} {
		t.Run(fmt.Sprintf("max_payload=%dMiB", payload/mib), func(t *testing.T) {
			w, server := newWorldApart(t, payload)
			s := spec{GroupSize: 2, Groups: 1, Steps: 1, Slots: 2, Bucket: longTokens, Rows: 2, Listen: w.address(), CacheBytes: 32 * mib}
			grouper := w.process(t, order{Role: "grouper", Spec: s})
			bridge := w.process(t, order{Role: "bridge", Spec: s})
			publisher := w.process(t, order{Role: "publisher", Spec: s, Held: 16 * mib, Body: hugeBody, Tokens: longTokens})
			trainer := w.process(t, order{Role: "trainer", Spec: s, Body: hugeBody, Tokens: longTokens})
			trainer.say("step 1 rows 2", 2*time.Minute)
			trainer.within(fixed+s.ring(), "ring")
			publisher.within(producerBound(1, hugeBody, 16*mib), "a body as text, and encoded")
			bridge.within(s.bridgeBound(hugeBody), "cache, pulls, ring, one body")
			grouper.within(grouperBound, "headers")
			server.within(serverBound(1, hugeBody+longTokens*8, time.Second), "a reader, a producer, all that is stored")
		})
	}
}

// TestMemory_ManyLongTrajectoriesAndASlowTrainer compares a run with one of
// eight times its trajectories, 3,840 of 100,000 tokens: what the roles take does not
// grow with their number. Of the server that is not said: what it keeps is a
// matter of how much comes in ten seconds.
func TestMemory_ManyLongTrajectoriesAndASlowTrainer(t *testing.T) {
	const tokens = 100_000
	peaks := map[string][]int{}
	for _, steps := range []int{15, 120} {
		t.Run(fmt.Sprintf("trajectories=%d", 32*steps), func(t *testing.T) {
			w, server := newWorldApart(t, 8*mib)
			s := spec{GroupSize: 8, Groups: 4, Steps: steps, Staleness: 4, Slots: 32, Bucket: tokens, Rows: 32, Listen: w.address(), CacheBytes: 32 * mib, Train: 100 * time.Millisecond}
			began := time.Now()
			all := []*process{
				w.process(t, order{Role: "grouper", Spec: s}), w.process(t, order{Role: "bridge", Spec: s}),
				w.process(t, order{Role: "publisher", Spec: s, Held: 8 * mib, Tokens: tokens}), w.process(t, order{Role: "trainer", Spec: s}),
			}
			all[3].say(fmt.Sprintf("step %d rows 32 tokens %d", steps, 32*tokens), 4*time.Minute)
			bounds := []int{grouperBound, s.bridgeBound(tokens * 8), producerBound(s.Slots, tokens*8, 8*mib), fixed + s.ring()}
			for i, p := range all {
				peaks[p.role] = append(peaks[p.role], p.within(bounds[i], fmt.Sprintf("%d MB of bodies in all", 32*steps*tokens*8/1_000_000)))
			}
			took := time.Since(began)
			server.within(serverBound(1, 32*steps*tokens*8, took), fmt.Sprintf("%d MB in %v", 32*steps*tokens*8/1_000_000, took.Round(time.Second)))
		})
	}
	for role, p := range peaks {
		if len(p) == 2 && p[1] > p[0]*5/4+16*mib {
			t.Errorf("%s: %d MiB, and %d MiB with eight times the trajectories", role, p[0]>>20, p[1]>>20)
		}
	}
}

// TestMemory_TheRealProducerPlaysLongEpisodes plays episodes of 100,000 tokens
// with a fake engine: context, answers and bodies of all slots.
func TestMemory_TheRealProducerPlaysLongEpisodes(t *testing.T) {
	w := newWorld(t, bus.ServerOptions{}, subjects.StreamOptions{})
	s := spec{GroupSize: 4, Groups: 2, Steps: 4, Staleness: 1, Turns: 4, Sampled: 25_000, Slots: 8, Bucket: 104_000, Rows: 8, Listen: w.address(), CacheBytes: 16 * mib}
	w.engine(s.Sampled)
	grouper := w.process(t, order{Role: "grouper", Spec: s})
	bridge := w.process(t, order{Role: "bridge", Spec: s})
	producer := w.process(t, order{Role: "producer", Spec: s})
	trainer := w.process(t, order{Role: "trainer", Spec: s})
	trainer.say("step 4 rows 8 tokens 80", 4*time.Minute) // 8 x 100,0xx
	body := s.tokens() * 12                               // ids, logprobs and the text of the conversation
	producer.within(producerBound(s.Slots, body+s.Sampled*48, 64*mib), "slots: context, answer, trajectory; 64 MiB encoded")
	bridge.within(s.bridgeBound(body), "cache, pulls, ring")
	grouper.within(grouperBound, "headers")
	trainer.within(fixed+s.ring(), "ring")
}

// TestStopped_ATrainerThatIsStoppedHoldsTheRun stops the trainer's process: the
// others play as far ahead as they may, keep within their bounds, and go on with it.
func TestStopped_ATrainerThatIsStoppedHoldsTheRun(t *testing.T) {
	const tokens = 20_000
	w := newWorld(t, bus.ServerOptions{}, subjects.StreamOptions{})
	s := spec{GroupSize: 8, Groups: 4, Steps: 12, Staleness: 1, Slots: 16, Bucket: tokens, Rows: 32, Listen: w.address(), CacheBytes: 16 * mib}
	grouper := w.process(t, order{Role: "grouper", Spec: s})
	bridge := w.process(t, order{Role: "bridge", Spec: s})
	publisher := w.process(t, order{Role: "publisher", Spec: s, Held: 8 * mib, Tokens: tokens})
	trainer := w.process(t, order{Role: "trainer", Spec: s})
	trainer.say("step 3 ", time.Minute)
	trainer.signal(syscall.SIGSTOP)
	last, still := 0, 0
	w.until("standstill", func() bool { // the trainer was stopped at a step that is not known
		if n := int(w.messages(subjects.Ledger)); n != last {
			last, still = n, 0
		}
		still++
		return still > 40 && w.messages(subjects.Tasks) == 0
	})
	steps := 0
	w.entries(func(e *subjects.Entry) { steps += len(e.Batches) })
	if produced, want := len(w.trajectories()), steps*s.Groups*s.GroupSize; produced != want || steps >= s.Steps {
		t.Errorf("%d trajectories for %d steps ahead, want %d", produced, steps, want)
	}
	bridge.within(s.bridgeBound(tokens*8), "while the trainer stands")
	publisher.within(producerBound(s.Slots, tokens*8, 8*mib), "while the trainer stands")
	grouper.within(grouperBound, "while the trainer stands")
	trainer.signal(syscall.SIGCONT)
	trainer.end(2 * time.Minute)
	want := s.Steps * s.Groups * s.GroupSize
	if produced, batched := w.trajectories(), w.batched(); len(produced) != want || len(batched) != want || slices.Max(counts(batched)) != 1 {
		t.Errorf("%d trajectories, %d of them in batches, want %d", len(produced), len(batched), want)
	}
}

func counts(m map[string]int) (n []int) {
	for _, k := range m {
		n = append(n, k)
	}
	return n
}

// TestStopped_AReaderThatIsStoppedForLongerThanTheServerWaits stops a process
// that follows bodies for longer than a write of the server may take (30 s).
func TestStopped_AReaderThatIsStoppedForLongerThanTheServerWaits(t *testing.T) {
	const before, after, size = 10, 400, 256 << 10
	w := newWorld(t, bus.ServerOptions{}, subjects.StreamOptions{})
	w.stored(before, size)
	reader := w.process(t, order{Role: "follower", Messages: before + after})
	reader.say(fmt.Sprint("message ", before), time.Minute)
	reader.signal(syscall.SIGSTOP)
	w.more(before, after, size)
	select { // nothing shorter is longer than the server waits
	case <-time.After(35 * time.Second):
	case err := <-reader.done:
		t.Fatalf("a stopped process ended: %v", err)
	}
	reader.signal(syscall.SIGCONT)
	reader.say(fmt.Sprint("message ", before+after), time.Minute)
	reader.within(fixed+2*follower, "two pulls of bodies")
}

// more stores n further messages of size bytes.
func (w *world) more(first, n, size int) {
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: "p2", BundleBytes: size})
	defer p.Close(w.ctx()) //nolint:errcheck // all is acknowledged
	for i := range n {
		_, err := p.PublishEncoded(w.ctx(), entry(first+i), make([]byte, size))
		w.must(err)
	}
}
