package replay

import (
	"context"
	"time"
)

// Pace keeps the distances of a recording, so many times as fast; 0 is as fast
// as it goes.
type Pace struct {
	Speed float64

	recorded, began time.Time
}

// Wait returns when what was recorded at a time is due, or when ctx ends.
func (p *Pace) Wait(ctx context.Context, recorded time.Time) error {
	if p.Speed <= 0 {
		return ctx.Err()
	}
	if p.began.IsZero() {
		p.recorded, p.began = recorded, time.Now()
	}
	due := p.began.Add(time.Duration(float64(recorded.Sub(p.recorded)) / p.Speed))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
