package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/grouper/watchdog"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	lookEvery  = time.Second
	hintEvery  = 2 * time.Second // what is waited for, to who listens
	usageEvery = 5 * time.Second // a look at how full ROLLOUTS is, while nothing moves
	lastTry    = 5 * time.Second // for a ledger without room to take the end
)

// wish is how the run is to end, said to the session that writes the ledger.
type wish struct{ why, text string }

// dog is the watchdog of one grouper: it outlives sessions, hears what the other
// roles say, and once a second looks whether the run moves.
type dog struct {
	cfg    *Config
	watch  *watchdog.Watch
	wishes chan wish // holds one

	sight // guarded by its mutex

	// The loop's.
	hinted, used time.Time
	dying        *Ended // the end that the ledger is to take
	diesAt       time.Time
}

func newDog(cfg *Config) *dog {
	d := &dog{cfg: cfg, watch: watchdog.New(cfg.Watchdog), wishes: make(chan wish, 1)}
	d.sight.start(time.Now())
	return d
}

// watched runs fn beside the watchdog, which may end it.
func (s *service) watched(ctx context.Context, fn func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	parts.Go(func() { s.dog.listen(ctx) })
	parts.Go(func() { later(ctx, s.dog.followEngines) })
	parts.Go(func() { later(ctx, s.dog.awaitCancel) })
	parts.Go(func() { s.dog.run(ctx, stop) })
	parts.Go(func() { s.work.run(ctx, s) })
	err := fn(ctx)
	stop(nil)
	parts.Wait()
	if s.dog.sawEnd() {
		s.dog.look(context.WithoutCancel(ctx), time.Now()) // a stall ends with the run
	}
	var ended *Ended
	if errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	return err
}

// later leaves the bus to the log that is read first.
func later(ctx context.Context, fn func(context.Context)) {
	select {
	case <-ctx.Done():
	case <-time.After(lookEvery):
		fn(ctx)
	}
}

// run looks again and again; stop ends the grouper where the ledger cannot say so.
func (d *dog) run(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.look(ctx, time.Now())
		if d.dying != nil && time.Now().After(d.diesAt) {
			stop(d.dying)
			return
		}
	}
}

func (d *dog) look(ctx context.Context, now time.Time) {
	d.measure(ctx, now)
	p := d.picture(now)
	r := d.watch.Look(&p)
	if r.Stall != nil {
		d.announce(r.Stall)
	}
	if r.End != "" {
		d.end(r, now)
	}
	if r.Hint != nil && now.Sub(d.hinted) >= hintEvery || d.dying != nil {
		d.hint(r.Hint, now)
	}
}

// announce says on the log and in TELEMETRY that the run stands still, or no more.
func (d *dog) announce(s *subjects.Stall) {
	if s.Code == "" {
		d.cfg.Log.Info().Msg(s.Text)
	} else {
		d.cfg.Log.Warn().Str("stage", s.Stage).Str("code", string(s.Code)).Float64("for_s", float64(int(s.Seconds()))).Str("why", s.Text).Msg("the run stands still")
	}
	d.publish(d.cfg.Run.TelemetrySubject(subjects.WatchdogRole, d.cfg.Writer), s)
	if s.Code == "" {
		d.publish(d.cfg.Run.StallSubject(), s)
	}
}

// end has the session end the run. Where the disk is full it may not be able to:
// then the grouper ends alone, and says so to who listens.
func (d *dog) end(r watchdog.Report, now time.Time) {
	text := fmt.Sprintf("%s; after %.0f s of that", r.Hint.Text, r.Hint.Seconds())
	d.wish(wish{r.End, text})
	if r.Hint.Code == subjects.DiskFull {
		d.dying, d.diesAt = &Ended{r.End, text}, now.Add(lastTry)
	}
}

func (d *dog) wish(w wish) {
	select {
	case d.wishes <- w:
	default: // one is enough
	}
}

func (d *dog) hint(s *subjects.Stall, now time.Time) {
	d.hinted = now
	if d.dying != nil {
		s = &subjects.Stall{Stage: subjects.StageBus, Code: subjects.DiskFull, Text: d.dying.Text, Since: now.UnixNano(), At: now.UnixNano(), End: d.dying.Reason}
	}
	d.publish(d.cfg.Run.StallSubject(), s)
}

func (d *dog) publish(subject string, s *subjects.Stall) {
	data, err := subjects.EncodeMessage(s)
	if err == nil {
		err = d.cfg.Conn.NC().Publish(subject, data)
	}
	if err != nil {
		d.cfg.Log.Debug().Err(err).Msg("report a stall")
	}
}

// measure looks how full ROLLOUTS is, while nothing moves.
func (d *dog) measure(ctx context.Context, now time.Time) {
	if d.idle(now) < usageEvery || now.Sub(d.used) < usageEvery || !d.cfg.Conn.NC().IsConnected() {
		return
	}
	d.used = now
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	bytes, limit, last, err := bus.StreamUsage(ctx, d.cfg.Conn, d.cfg.Run, subjects.Rollouts)
	if err != nil {
		d.cfg.Log.Debug().Err(err).Msg("look how full the rollouts are")
		return
	}
	d.setUsage(bytes, limit, last)
}

// awaitCancel ends a run whose record says that it is over while the ledger does
// not: somebody cancelled it.
func (d *dog) awaitCancel(ctx context.Context) {
	reason, err := bus.AwaitRunEnd(ctx, d.cfg.Conn, d.cfg.Run)
	switch {
	case err == nil:
		text := "somebody ended it"
		if reason != subjects.EndCancelled {
			text += ": " + reason
		}
		d.wish(wish{subjects.EndCancelled, text})
	case ctx.Err() == nil:
		d.cfg.Log.Debug().Err(err).Msg("the run's record is not watched")
	}
}
