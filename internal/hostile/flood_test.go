package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// noise is n random bytes, the same for the same seed.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// What a flood sends at most; heapMost what the process may hold after
// it, server included, MiB.
const (
	floodBytes    = 24 << 20
	floodMessages = 6000
	heapMost      = 256
)

// floods are what is sent without a lease, as fast as the server takes it.
var floods = map[string]func(e *enemy) func(i int) *message{
	"bytes that mean nothing": func(e *enemy) func(int) *message {
		body := noise(1, 1<<20)
		return func(i int) *message {
			return &message{subject: run.RolloutSubject(mallory), data: body[:1<<(10+i%10)]}
		}
	},
	"headers that mean nothing": func(e *enemy) func(int) *message {
		lines := make([]string, 500)
		for i := range lines {
			lines[i] = fmt.Sprintf("%x", noise(i, 50))
		}
		return func(i int) *message {
			m := e.bundle()
			m.header[subjects.HeaderIndex] = lines[:1+i%len(lines)]
			return m
		}
	},
	"index entries cut short": func(e *enemy) func(int) *message {
		return func(i int) *message {
			m := e.bundle(forge(i%24, i%4, 0))
			x := m.header[subjects.HeaderIndex][0]
			m.header[subjects.HeaderIndex] = slices.Repeat([]string{x[:i%len(x)]}, 20)
			return m
		}
	},
	"another's slots, worth more": func(e *enemy) func(int) *message {
		return func(i int) *message { return e.bundle(forge(i%24, i/24%4, i/96%3)) }
	},
	"another's slots, with a token": func(e *enemy) func(int) *message {
		return func(i int) *message {
			t := forge(i%24, i/24%4, 0)
			t.Token = subjects.LeaseToken(noise(i, 32), t.Kind, t.Group, t.Slot, t.Attempt)
			return e.bundle(t)
		}
	},
	"under another's name": func(e *enemy) func(int) *message {
		return func(i int) *message {
			m := e.bundle(forge(i%24, i/24%4, 0))
			m.header[subjects.HeaderProducer] = []string{"honest0"}
			return m
		}
	},
	"under ids that others will use": func(e *enemy) func(int) *message {
		return func(i int) *message {
			t := forge(i%24, i/24%4, 0)
			m := e.bundle(t)
			m.header[jetstream.MsgIDHeader] = []string{string(t.Kind) + "/" + t.ID()}
			return m
		}
	},
	"as parts that carry an index": func(e *enemy) func(int) *message {
		return func(i int) *message {
			m := e.bundle(forge(i%24, i/24%4, 0))
			m.header[subjects.HeaderPart] = []string{"1/2"}
			return m
		}
	},
	"parts that never end": func(e *enemy) func(int) *message {
		body := noise(1, 64<<10)
		return func(i int) *message {
			return &message{subject: run.RolloutSubject(mallory), header: nats.Header{subjects.HeaderPart: {fmt.Sprintf("%d/4096", 1+i%4095)}}, data: body}
		}
	},
	"giant counts": func(e *enemy) func(int) *message {
		m := e.bundle(forge(0, 0, 0))
		m.header[subjects.HeaderIndex] = slices.Repeat(m.header[subjects.HeaderIndex], subjects.MaxBundle+1)
		return func(int) *message { return m }
	},
	"absurd numbers": func(e *enemy) func(int) *message {
		values := []string{"-1", "99999999999999999999", "1e999", "NaN", "0x7f", "9223372036854775807", strings.Repeat("9", 10000)}
		return func(i int) *message {
			m := e.bundle(forge(i%24, i%4, 0))
			fields := strings.Fields(m.header[subjects.HeaderIndex][0])
			fields[i%len(fields)] = values[i/len(fields)%len(values)]
			m.header[subjects.HeaderIndex] = []string{strings.Join(fields, " ")}
			return m
		}
	},
	"evaluations": func(e *enemy) func(int) *message {
		return func(i int) *message {
			t := forge(0, i%4, 0)
			t.Kind, t.Group = subjects.Eval, subjects.EvalGroup(subjects.Step(i%6), i%8)
			t.Round = subjects.Step(i % 6)
			return e.bundle(t)
		}
	},
}

func TestFlood_ChangesNothing(t *testing.T) {
	for name, attack := range floods {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(g *grouper.Config) { g.SlotTimeout = time.Minute })
			o := w.play(func(ctx context.Context, e *enemy, begun chan<- struct{}) error {
				return e.flood(ctx, begun, floodBytes, floodMessages, attack(e))
			})
			o.untouched()
			if o.heap > heapMost {
				t.Errorf("%d MiB in use at the end", o.heap)
			}
			letters := w.letters()
			if len(letters) > 100+40 {
				t.Errorf("%d dead letters of one producer", len(letters))
			}
			for _, h := range letters {
				if h.Get(subjects.HeaderID) != "" {
					t.Errorf("a letter about %s, of which the attacker holds no lease", h.Get(subjects.HeaderID))
				}
			}
			t.Logf("%d MiB; forged %.0f, unreadable %.0f, letters %d", o.heap, w.gauge("bridge", "forged_trajectories_total"), w.gauge("bridge", "unreadable_total"), len(letters))
		})
	}
}
