package spans

import (
	"context"
	"time"
)

// Offset is how far the server's clock is ahead of this process's.
type Offset struct {
	Ahead       time.Duration
	Uncertainty time.Duration // how much Ahead may be off, either way
}

// asks is how many requests a measurement takes: the fastest one counts.
const asks = 8

// Measure asks the server for its time and compares. The server looked at its
// clock at some moment between request and answer; that it was the middle of it
// is off by half of the time it took at most (Cristian's algorithm).
func Measure(ctx context.Context, now func() int64, server func(context.Context) (time.Time, error)) (Offset, error) {
	best := Offset{Uncertainty: -1}
	for range asks {
		sent := now()
		at, err := server(ctx)
		if err != nil {
			return Offset{}, err
		}
		half := (now() - sent) / 2
		if best.Uncertainty < 0 || half < int64(best.Uncertainty) {
			best = Offset{Ahead: time.Duration(at.UnixNano() - sent - half), Uncertainty: time.Duration(half)}
		}
	}
	return best, nil
}
