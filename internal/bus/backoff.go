package bus

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause before the n-th retry (from 1): doubling from low to high,
// half of it random, so that clients that failed together do not come back together.
func backoff(n int, low, high time.Duration) time.Duration {
	d := high
	if n < 20 {
		d = min(low<<max(n-1, 0), high)
	}
	return d/2 + rand.N(d/2+1)
}

// pause waits for d, less if ctx ends, which it reports.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
