package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// bodies reads every trajectory of every batch: it must be there, whole, and of
// the group that it was trained in.
func (v *verdict) bodies(ctx context.Context, c *bus.Conn, batches map[subjects.Step]*subjects.Batch) error {
	for _, b := range batches {
		for _, g := range b.Groups {
			for _, m := range g.Members {
				if err := v.body(ctx, c, g.Group, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (v *verdict) body(ctx context.Context, c *bus.Conn, g subjects.GroupID, m subjects.Member) error {
	msg, err := bus.Read(ctx, c, runName.StreamName(subjects.Rollouts), m.Seq)
	if errors.Is(err, bus.ErrNotFound) {
		v.lose("rollouts message %d of group %s is gone", m.Seq, g)
		return nil
	}
	if err != nil {
		return err
	}
	if m.Offset+m.Length > len(msg.Data) {
		v.lose("rollouts message %d of group %s is cut", m.Seq, g)
		return nil
	}
	body := msg.Data[m.Offset : m.Offset+m.Length]
	if subjects.Checksum(body) != m.Checksum {
		v.lose("trajectory %d of rollouts message %d differs from its checksum", m.Index, m.Seq)
		return nil
	}
	t, err := subjects.DecodeTrajectory(body)
	if err != nil {
		v.lose("trajectory %d of rollouts message %d: %v", m.Index, m.Seq, err)
		return nil
	}
	if t.Group != g || t.Slot != m.Slot || t.Attempt != m.Attempt {
		v.confuse("group %s, slot %d holds trajectory %s", g, m.Slot, t.ID())
	}
	return nil
}

// rebuild has a bridge that was not there build every batch from the log: the
// digests by step.
func rebuild(ctx context.Context, c *bus.Conn, w *world, steps int) (map[subjects.Step]string, error) {
	r, err := recipe.Load(w.path("recipe.yaml"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	address := "unix:" + w.path("again")
	ended := make(chan error, 1)
	listening := make(chan struct{})
	go func() {
		ended <- trainerbridge.Run(ctx, trainerbridge.Config{Conn: c, Run: runName, Listen: []string{address}, Layout: r.Bridge.WithDefaults(),
			DrainTimeout: time.Millisecond, OnListen: func([]string) { close(listening) }})
	}()
	select {
	case <-listening:
	case err := <-ended:
		return nil, err
	}
	digests, err := pull(ctx, address, steps)
	cancel()
	return digests, errors.Join(err, <-ended)
}

func pull(ctx context.Context, address string, steps int) (map[subjects.Step]string, error) {
	client, err := feed.Dial(ctx, address, feed.Hello{Client: "chaos"})
	if err != nil {
		return nil, err
	}
	defer client.Close("read") //nolint:errcheck // it was read
	digests := map[subjects.Step]string{}
	for range steps {
		b, _, err := client.Next()
		if err != nil {
			return digests, err
		}
		digests[b.Step] = b.Digest
		if err := client.Release(b); err != nil {
			return digests, err
		}
	}
	return digests, nil
}

// compare wants every batch that the trainer was given to be the one that the
// log gives now, and the trainer's last state to have learned each once.
func (v *verdict) compare(lines []line, digests, again map[subjects.Step]string) {
	state, states := "", map[subjects.Step]string{}
	for step := subjects.Step(1); int(step) <= len(again); step++ {
		if digests[step] != "" && digests[step] != again[step] {
			v.confuse("step %d was delivered as %s, the log gives %s", step, digests[step], again[step])
		}
		state = learn(state, again[step])
		states[step] = state
	}
	for _, l := range lines {
		if l.State != "" && l.State != states[l.Step] {
			v.confuse("%s at step %d: the trainer has not learned just steps 1 to %d", l.Event, l.Step, l.Step)
		}
	}
	if n := len(lines); n == 0 || lines[n-1].Event != "end" {
		v.Error = fmt.Sprintf("the trainer's log has no end after %d lines", n)
	}
}
