package trainerbridge

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/ring"
)

const (
	stallLook = time.Second     // between two looks at why a trainer waits
	stallSoon = 5 * time.Second // after which it is told for the first time
	hintLife  = 6 * time.Second // of what a grouper says it waits for: it says so every two
)

// hearsay is what the bridge hears of the grouper beside the ledger.
type hearsay struct {
	conn *bus.Conn
	run  subjects.Run
	log  zerolog.Logger

	mu       sync.Mutex
	stall    subjects.Stall // what a grouper waits for
	stallAt  time.Time
	declared bool          // it has lasted as long as the recipe says
	heardAt  time.Time     // of a grouper at all
	says     string        // what it waits for, in its gauges
	end      *feed.End     // that the ledger has no room for
	news     chan struct{} // closed when declared or end changes
}

func newHearsay(conn *bus.Conn, run subjects.Run, log zerolog.Logger) *hearsay {
	return &hearsay{conn: conn, run: run, log: log, heardAt: time.Now(), news: make(chan struct{})}
}

// follow listens until ctx ends. Whoever may not listen tells its trainer less.
func (h *hearsay) follow(ctx context.Context) error {
	in := make(chan *nats.Msg, 1024)
	for _, subject := range []string{h.run.TelemetrySubject("grouper", "*"), h.run.TelemetrySubject(subjects.WatchdogRole, "*"), h.run.StallSubject()} {
		sub, err := h.conn.NC().ChanSubscribe(subject, in)
		if err != nil {
			h.log.Debug().Err(err).Str("subject", subject).Msg("listen to the grouper")
			continue
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-in:
			h.hear(m, time.Now())
		}
	}
}

func (h *hearsay) hear(m *nats.Msg, now time.Time) {
	if grouper, _ := strings.CutSuffix(h.run.TelemetrySubject("grouper", "*"), "*"); strings.HasPrefix(m.Subject, grouper) {
		var g subjects.Gauges
		if subjects.DecodeMessage(m.Data, &g) == nil {
			h.update(func() { h.heardAt, h.says = now, strings.TrimPrefix(g.Text, "waiting for ") }, false)
		}
		return
	}
	var s subjects.Stall
	if subjects.DecodeMessage(m.Data, &s) != nil {
		return
	}
	declared := m.Subject != h.run.StallSubject()
	h.update(func() {
		h.heardAt, h.stall, h.stallAt = now, s, now
		h.declared = declared || h.declared && s.Code != ""
		if s.End != "" {
			h.end = &feed.End{Reason: s.End, Text: s.Text}
		}
	}, declared || s.Code == "" || s.End != "")
}

func (h *hearsay) update(change func(), news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if change(); news {
		close(h.news)
		h.news = make(chan struct{})
	}
}

// word is what a grouper last said.
type word struct {
	stall    subjects.Stall
	age      time.Duration // of the stall's report
	declared bool
	silent   time.Duration // since a grouper was heard of
	says     string
	end      *feed.End
	news     <-chan struct{}
}

// cleared: the last that was said is that the run moves.
func (w *word) cleared() bool { return w.stall.Code == "" && w.stall.At > 0 }

func (h *hearsay) last(now time.Time) word {
	h.mu.Lock()
	defer h.mu.Unlock()
	return word{h.stall, now.Sub(h.stallAt), h.declared, now.Sub(h.heardAt), h.says, h.end, h.news}
}

// waiting is one wait of a trainer for its batch.
type waiting struct {
	begun, said time.Time
	code        subjects.StallCode // last said
}

// why says what a trainer that has waited since begun waits for. urgent: it is
// told at once.
func (s *session) why(w *waiting, heard *word, now time.Time) (n feed.Notice, urgent bool) {
	waited, step, cut := now.Sub(w.begun), s.lastDelivered()+1, s.manifests.progress()
	notice := func(stage string, code subjects.StallCode, since time.Duration, format string, args ...any) feed.Notice {
		return feed.Notice{Kind: "stall", Stage: stage, Code: code, SinceS: since.Seconds(), Text: fmt.Sprintf(format, args...)}
	}
	quiet := min(heard.silent, now.Sub(s.manifests.heard()))
	switch {
	case s.ring.Count(ring.Held) == s.ring.Slots():
		return notice(subjects.StageTrainer, subjects.TrainerHoldsRing, waited, "waiting %.0f s for a slot: the trainer holds all %d", waited.Seconds(), s.ring.Slots()), false
	case !s.Conn.NC().IsConnected():
		return notice(subjects.StageBus, subjects.BusUnreachable, waited, "waiting %.0f s for the batch of step %d: the bridge has lost the bus, no server answers", waited.Seconds(), step), true
	case cut >= step:
		return notice(subjects.StageBridge, subjects.NoBatch, waited, "waiting %.0f s for the batch of step %d: the bridge builds it", waited.Seconds(), step), false
	case heard.stall.Code != "" && heard.age < hintLife:
		return notice(heard.stall.Stage, heard.stall.Code, time.Duration(heard.stall.Seconds()*float64(time.Second))+heard.age, "%s", heard.stall.Text), heard.declared
	case quiet > s.silence:
		return notice(subjects.StageGrouper, subjects.GrouperGone, quiet, "waiting %.0f s for the batch of step %d: nothing was heard of a grouper for %.0f s", waited.Seconds(), step, quiet.Seconds()), true
	}
	n = notice(subjects.StageGrouper, subjects.NoBatch, waited, "waiting %.0f s for the batch of step %d: the ledger ends at %d", waited.Seconds(), step, cut)
	if heard.says != "" {
		n.Text += ", and the grouper waits for " + heard.says
	}
	return n, false
}

// stalled tells trainer, log and watchers what the trainer waits for, if it is time
// to; and a trainer that was told, that the run moves again.
func (s *session) stalled(w *waiting, now time.Time) error {
	heard := s.hearsay.last(now)
	n, urgent := s.why(w, &heard, now)
	if n.Code == subjects.NoBatch && w.code != "" && w.code != subjects.NoBatch && heard.cleared() {
		w.code, w.said = "", now
		return s.out.send(feed.TypeNotice, feed.Notice{Kind: "stall", Stage: n.Stage, Text: "the run moves again"})
	}
	last, pause := w.said, s.stallEvery
	if last.IsZero() {
		last, pause = w.begun, min(pause, stallSoon)
	}
	if changed := urgent && n.Code != w.code; !changed && now.Sub(last) < pause {
		return nil
	}
	w.said, w.code = now, n.Code
	step := s.lastDelivered() + 1
	s.Log.Info().Int64("step", int64(step)).Str("stage", n.Stage).Str("code", string(n.Code)).Msg(n.Text)
	s.OnEvent(Event{Kind: Stalled, Step: step, Text: n.Text})
	return s.out.send(feed.TypeNotice, n)
}
