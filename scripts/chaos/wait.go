package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// await tries until it works, or time is up.
func await(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(25 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// pause waits, less when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var taken sync.Map // ports of this campaign's runs

// port is the named port of this run. They are outside the range that the
// kernel gives to outgoing connections: a client that dials a dead server's port
// from that very port reaches itself.
func (w *world) port(name string) int {
	if p := w.ports[name]; p != 0 {
		return p
	}
	for {
		p := 18000 + rand.IntN(14000)
		if _, used := taken.LoadOrStore(p, true); used {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		_ = l.Close()
		w.ports[name] = p
		return p
	}
}

// between draws a duration.
func (w *world) between(low, high time.Duration) time.Duration {
	w.drawing.Lock()
	defer w.drawing.Unlock()
	return low + time.Duration(w.draw.Int64N(int64(high-low)))
}

// pickOne draws a number below n.
func (w *world) pickOne(n int) int {
	w.drawing.Lock()
	defer w.drawing.Unlock()
	return w.draw.IntN(n)
}
