package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// answers are what an attacker makes of a task that it leased. Each is sent once
// for each lease; what it acknowledges after is up to it.
var answers = map[string]func(ctx context.Context, e *enemy, l *bus.Lease) []*message{
	"a reward in the index that the body does not have": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Reward = 1000 })}
	},
	"counts that the body does not have": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Tokens, x.Longest, x.Trainable = 1, 1, 1 })}
	},
	"segments that the body does not have": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Segments = 4096 })}
	},
	"versions that the body does not have": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.MinVersion, x.MaxVersion = 1<<30, 1<<30 })}
	},
	"another group": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Group, x.Reward = "t1", 1000 })}
	},
	"another slot of its group": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Slot, x.Reward = (x.Slot+1)%size, 1000 })}
	},
	"a place beyond its data": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Offset = 1 << 30 })}
	},
	"a length beyond its data": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Length = 1 << 30 })}
	},
	"a wrong checksum": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		return []*message{e.bundle(played(l.Task, mallory)).entry(func(x *subjects.IndexEntry) { x.Checksum ^= 1 })}
	},
	"a body that means nothing": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		m.data = noise(1, len(m.data))
		return []*message{m.entry(func(x *subjects.IndexEntry) { x.Checksum = subjects.Checksum(m.data) })}
	},
	"a segment that fits no row": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		t := played(l.Task, mallory)
		t.Segments[0].Tokens = append(t.Segments[0].Tokens, make([]int32, 1000)...)
		return []*message{e.bundle(t)}
	},
	"more segments than a batch has rows": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		t := played(l.Task, mallory)
		t.Segments = slices.Repeat(t.Segments, 1000)
		return []*message{e.bundle(t)}
	},
	"no counter": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		delete(m.header, subjects.HeaderCounter)
		return []*message{m}
	},
	"counters that go backwards": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		m.header[subjects.HeaderCounter] = []string{fmt.Sprint(1000 - len(e.held()))}
		return []*message{m}
	},
	"parts of others": func(ctx context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		m.header[subjects.HeaderParts] = []string{"1,2,3"}
		return []*message{m}
	},
	"parts that are not there": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		list := make([]string, 4000)
		for i := range list {
			list[i] = fmt.Sprint(1<<40 + i)
		}
		m.header[subjects.HeaderParts] = []string{strings.Join(list, ",")}
		return []*message{m}
	},
	"more parts than there may be": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		m.header[subjects.HeaderParts] = []string{strings.Repeat("1,", 20000) + "1"}
		return []*message{m}
	},
	"its result 400 times in a message": func(_ context.Context, e *enemy, l *bus.Lease) []*message {
		m := e.bundle(played(l.Task, mallory))
		m.header[subjects.HeaderIndex] = slices.Repeat(m.header[subjects.HeaderIndex], 400)
		return []*message{m}
	},
	"its result again and again, ever better": func(_ context.Context, e *enemy, l *bus.Lease) (out []*message) {
		for n := range 200 {
			t := played(l.Task, mallory)
			t.Reward = float64(n)
			out = append(out, e.bundle(t))
		}
		return out
	},
	"malformed results again and again": func(_ context.Context, e *enemy, l *bus.Lease) (out []*message) {
		for n := range 200 {
			m := e.bundle(played(l.Task, mallory))
			m.data[len(m.data)/2] ^= byte(1 + n)
			out = append(out, m)
		}
		return out
	},
	"failures again and again": func(_ context.Context, e *enemy, l *bus.Lease) (out []*message) {
		t := played(l.Task, mallory)
		t.Status, t.Reason, t.Reward = subjects.Failed, "so there", 0
		return slices.Repeat([]*message{e.bundle(t)}, 200)
	},
	"nothing": func(context.Context, *enemy, *bus.Lease) []*message { return nil },
}

// leases that the attacker takes first: a quarter of a batch's.
const taken = size

func TestLease_IsGoodForItsSlotAlone(t *testing.T) {
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			o := w.play(func(ctx context.Context, e *enemy, begun chan<- struct{}) error {
				leases, err := e.lease(ctx, taken)
				if err != nil {
					return err
				}
				for _, l := range leases {
					for _, m := range answer(ctx, e, l) {
						if _, err := e.send(ctx, m); err != nil {
							return err
						}
					}
				}
				close(begun)
				<-ctx.Done() // and it never acknowledges
				return nil
			})
			o.honestBut()
			if letters := w.letters(); len(letters) > taken {
				t.Errorf("%d dead letters for %d leases", len(letters), taken)
			}
			if o.heap > heapMost {
				t.Errorf("%d MiB in use at the end", o.heap)
			}
		})
	}
}

func TestLease_HeldForEverEndsWithItsSlot(t *testing.T) {
	w := newWorld(t, nil)
	w.play(func(ctx context.Context, e *enemy, begun chan<- struct{}) error {
		leases, err := e.lease(ctx, taken)
		if err != nil {
			return err
		}
		close(begun)
		for beat := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-beat.C {
			for _, l := range leases {
				if err := l.InProgress(); err != nil {
					return err
				}
			}
		}
		return nil
	}).untouched()
}

// TestLease_HoardedAreReissuedAndHonestPullsServedInTurn has the attacker take
// whatever it is given, in pulls as large as they may be, and answer nothing.
func TestLease_HoardedAreReissuedAndHonestPullsServedInTurn(t *testing.T) {
	w := newWorld(t, func(g *grouper.Config) { g.SlotTimeout, g.Steps = 500*time.Millisecond, 2 })
	w.play(func(ctx context.Context, e *enemy, begun chan<- struct{}) error {
		inbox := e.conn.NC().NewInbox()
		sub, err := e.conn.NC().SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
		pull := func() error {
			return e.conn.NC().PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+run.StreamName(subjects.Tasks)+"."+subjects.TaskConsumer, inbox,
				fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, subjects.MaxLeaseBatch, time.Minute))
		}
		if err := pull(); err != nil {
			return err
		}
		for n := 0; ctx.Err() == nil; n++ {
			m, err := sub.NextMsgWithContext(ctx)
			if err != nil {
				return err
			}
			if n == 0 {
				close(begun)
			}
			if len(m.Data) == 0 { // the end of a pull: another one
				if err := pull(); err != nil {
					return err
				}
			}
		}
		return nil
	}).ended()
}

// TestLease_OfOthersEndedByGuessingTheirNumbers acknowledges, gives back, ends
// and extends every lease there may be, of whomever.
func TestLease_OfOthersEndedByGuessingTheirNumbers(t *testing.T) {
	for _, word := range []string{"+ACK", "-NAK", "+TERM so there", "+WPI", "+NXT"} {
		t.Run(word[:4], func(t *testing.T) {
			w := newWorld(t, nil)
			w.play(func(ctx context.Context, e *enemy, begun chan<- struct{}) error {
				for round := 0; ctx.Err() == nil; round++ {
					for seq := 1; seq <= 2*steps*size*size; seq++ {
						subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", run.StreamName(subjects.Tasks), subjects.TaskConsumer, seq, seq, time.Now().UnixNano())
						if err := e.conn.NC().Publish(subject, []byte(word)); err != nil {
							return err
						}
					}
					if err := e.conn.NC().FlushWithContext(ctx); err != nil {
						return err
					}
					if round == 0 {
						close(begun)
					}
				}
				return nil
			}).untouched()
		})
	}
}
