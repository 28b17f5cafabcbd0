package index

import (
	"context"
	"sync"
	"time"
)

// longestWait is how long reading the log stands back for those who ask: then it
// goes on for as long, however many ask.
const longestWait = 300 * time.Millisecond

// front are those who wait for an answer. While there are some, the log is not
// read further: what they ask for would stand behind it on the same connection.
type front struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when the last of them leaves
	turn  time.Time     // until then the log is read in any case
}

// Ahead lets somebody ask while the log is being read; leave must be called.
func (x *Index) Ahead() (leave func()) {
	f := &x.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.n == 1 {
		f.empty = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.n--; f.n == 0 {
			close(f.empty)
		}
	})
}

// StandBack waits until nobody asks, or long enough: for those who read on the same
// connection what nobody waits for.
func (x *Index) StandBack(ctx context.Context) { x.front.standBack(ctx) }

func (f *front) standBack(ctx context.Context) {
	f.mu.Lock()
	n, empty, turn := f.n, f.empty, f.turn
	f.mu.Unlock()
	if n == 0 || time.Now().Before(turn) {
		return
	}
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	select {
	case <-empty:
	case now := <-timer.C:
		f.mu.Lock()
		f.turn = now.Add(longestWait)
		f.mu.Unlock()
	case <-ctx.Done():
	}
}
