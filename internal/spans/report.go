package spans

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	reportEvery = time.Second
	clockEvery  = time.Minute
)

// Run sends what is recorded about once a second until ctx ends, and once more
// then. A message that gets lost is counted in the next one; nothing waits for
// any. The error is that of the last one.
func (r *Recorder) Run(ctx context.Context, conn *bus.Conn, run subjects.Run) error {
	if r == nil || conn.Mute() {
		r.silence()
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	var measured time.Time
	for {
		if time.Since(measured) > clockEvery {
			r.align(ctx, conn)
			measured = time.Now()
		}
		select {
		case <-ctx.Done():
			return r.send(conn, run)
		case <-ticker.C:
			if err := r.send(conn, run); err != nil {
				continue // counted
			}
		}
	}
}

// silence ends the recording: nobody will ask for it.
func (r *Recorder) silence() {
	if r != nil {
		r.silent.Store(true)
	}
}

// align measures the clock; the last measurement stays when it cannot.
func (r *Recorder) align(ctx context.Context, conn *bus.Conn) {
	r.follow(time.Now().UnixNano())
	o, err := Measure(ctx, r.Now, func(ctx context.Context) (time.Time, error) { return bus.ServerTime(ctx, conn) })
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset = o
}

// send publishes what was recorded since the last time.
func (r *Recorder) send(conn *bus.Conn, run subjects.Run) error {
	b := r.take(r.Now())
	if b == nil {
		return nil
	}
	data, err := subjects.EncodeMessage(b)
	if err == nil {
		err = conn.Tell(run.SpanSubject(r.role, r.instance), data)
	}
	if err != nil {
		r.lose(len(b.Name))
		return fmt.Errorf("send %d spans: %w", len(b.Name), err)
	}
	return nil
}
