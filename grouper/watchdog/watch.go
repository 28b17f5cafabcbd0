package watchdog

import (
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// hintAfter is how long the run must have been waiting before that is worth saying.
const hintAfter = 3 * time.Second

// Watch is what the watchdog remembers from one look to the next.
type Watch struct {
	cfg   Config
	code  subjects.StallCode // of the stall that is on; empty: none
	said  time.Time
	ended bool
}

// New is a watchdog that has said nothing.
func New(cfg Config) *Watch { return &Watch{cfg: cfg.WithDefaults()} }

// Report is what follows from a look.
type Report struct {
	// Hint is what is waited for, whether or not it is a stall: nil if nothing is, or
	// not for long.
	Hint *subjects.Stall
	// Stall is to be announced: a stall that began, changed its cause or lasts, or
	// with an empty code the end of one.
	Stall *subjects.Stall
	// End, when set, is why the run is to be ended, once.
	End string
}

// Look says what follows from a picture.
func (w *Watch) Look(p *Picture) Report {
	cause, since, stalled := w.judge(p)
	if p.View.Next.Wait == grouper.WaitNothing {
		cause, stalled = Cause{}, false
	}
	if !stalled {
		r := Report{Stall: w.clear(p, since)}
		if cause.Code != "" && p.Now.Sub(since) >= hintAfter {
			r.Hint = stall(cause, since, p.Now)
		}
		return r
	}
	s := stall(cause, since, p.Now)
	r := Report{Hint: s}
	if cause.Code != w.code || p.Now.Sub(w.said) >= w.cfg.After {
		w.code, w.said, r.Stall = cause.Code, p.Now, s
	}
	if end := endOf(cause.Code); end != "" && !w.ended && w.cfg.EndAfter > 0 && p.Now.Sub(since) >= w.cfg.EndAfter {
		w.ended, r.End = true, end
	}
	return r
}

// judge says what holds the run up, since when, and whether that is long enough.
func (w *Watch) judge(p *Picture) (c Cause, since time.Time, stalled bool) {
	long := func(since time.Time) bool { return p.Now.Sub(since) >= w.cfg.After }
	if p.Trouble.Code != "" {
		return p.Trouble, p.TroubleAt, long(p.TroubleAt)
	}
	if long(p.Moved) {
		return p.Diagnose(), p.Moved, true
	}
	if !long(p.Progressed) {
		return p.Diagnose(), p.Moved, false
	}
	if c, ok := p.filtered(); ok {
		return c, p.Progressed, true
	}
	if p.View.Next.Wait == grouper.WaitInspection {
		return p.Diagnose(), p.Progressed, true
	}
	return p.Diagnose(), p.Moved, false
}

// clear ends the stall that is on.
func (w *Watch) clear(p *Picture, since time.Time) *subjects.Stall {
	if w.code == "" {
		return nil
	}
	w.code = ""
	text := "the run moves again"
	if p.View.Next.Wait == grouper.WaitNothing {
		text = "the run has ended"
	}
	return stall(Cause{Stage: subjects.StageGrouper, Text: text}, since, p.Now)
}

func stall(c Cause, since, now time.Time) *subjects.Stall {
	return &subjects.Stall{V: subjects.SchemaVersion, Stage: c.Stage, Code: c.Code, Text: c.Text, Since: since.UnixNano(), At: now.UnixNano()}
}

// endOf is how a run ends for a stall; empty: a stall of that kind ends none.
func endOf(c subjects.StallCode) string {
	switch c {
	case subjects.NoProducers:
		return subjects.EndNoProducers
	case subjects.NoEngine:
		return subjects.EndEngineGone
	case subjects.AllStale:
		return subjects.EndAllStale
	case subjects.AllZeroVariance, subjects.AllFiltered:
		return subjects.EndAllFiltered
	case subjects.RolloutsFull, subjects.DiskFull:
		return subjects.EndDiskFull
	}
	return ""
}
