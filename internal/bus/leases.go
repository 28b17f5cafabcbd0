package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/subjects"
)

const (
	maxPulls    = 4    // requests that wait at the server; the next one asks for all that is wanted
	leaseBuffer = 8192 // leases on their way, never more than callers of Next at some time
)

// Leases hands out a run's tasks. It asks the queue for as many as there are
// callers of Next, never for more: what it holds, nobody else can play.
type Leases struct {
	conn   *Conn
	run    subjects.Run
	stream string
	log    zerolog.Logger
	sub    *nats.Subscription
	in     chan *nats.Msg
	kick   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	waiting []chan leased // callers of Next, oldest first
	err     error         // why no more leases come
}

type leased struct {
	lease *Lease
	err   error
}

// Tasks opens the run's task queue; Close it. It lives through reconnects and a
// lost consumer.
func Tasks(ctx context.Context, c *Conn, run subjects.Run, log zerolog.Logger) (*Leases, error) {
	if err := ensureTaskConsumer(ctx, c, run); err != nil {
		return nil, err
	}
	l := &Leases{conn: c, run: run, stream: run.StreamName(subjects.Tasks), log: log,
		in: make(chan *nats.Msg, leaseBuffer), kick: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if l.sub, err = c.nc.ChanSubscribe(c.nc.NewInbox(), l.in); err != nil {
		return nil, classify("lease tasks of", string(run), err)
	}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go l.loop(ctx) // ended by Close
	return l, nil
}

// Next waits for a task. It is safe for concurrent use.
func (l *Leases) Next(ctx context.Context) (*Lease, error) {
	ch := make(chan leased, 1)
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return nil, l.err
	}
	l.waiting = append(l.waiting, ch)
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
	select {
	case got := <-ch:
		return got.lease, got.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.waiting = slices.DeleteFunc(l.waiting, func(w chan leased) bool { return w == ch })
	l.mu.Unlock()
	select {
	case got := <-ch: // it came all the same
		if got.lease != nil {
			_ = got.lease.Nak(0)
		}
	default:
	}
	return nil, ctx.Err()
}

// Close gives back what was not handed out and fails the callers of Next.
func (l *Leases) Close() error {
	l.cancel()
	<-l.done
	return nil
}

// pulls is the account of what was asked of the server.
type pulls struct{ open, asked int }

// loop asks for tasks and hands them out.
func (l *Leases) loop(ctx context.Context) {
	defer close(l.done)
	defer l.giveBack()
	timer := time.NewTimer(l.silence())
	defer timer.Stop()
	ctx, done := l.conn.watchDenied(ctx, func(subject string) bool { return subject == l.requests() })
	defer done()
	lost := l.conn.lost()
	var p pulls
	failures := 0
	for {
		err := l.ask(&p)
		timer.Reset(l.silence())
		select {
		case m := <-l.in:
			if err = l.take(ctx, m, &p); err == nil {
				failures = 0
			}
		case <-l.kick:
		case <-timer.C: // no heartbeat: the requests are gone
			p = pulls{}
		case <-lost:
			err = classify("lease tasks of", string(l.run), nats.ErrDisconnected)
		case <-ctx.Done():
			l.fail(denialOf(ctx, ErrClosed))
			return
		}
		if err == nil {
			continue
		}
		failures++
		if p, err = l.recover(ctx, failures, err); err != nil {
			l.fail(err)
			return
		}
		lost = l.conn.lost()
	}
}

// recover waits for the connection and makes the consumer again.
func (l *Leases) recover(ctx context.Context, failures int, cause error) (pulls, error) {
	l.log.Debug().Err(cause).Msg("ask for tasks again")
	if err := pause(ctx, backoff(failures, retryMin, retryMax)); err != nil {
		return pulls{}, ErrClosed
	}
	if err := l.conn.awaitUp(ctx); err != nil {
		return pulls{}, ErrClosed
	}
	err := ensureTaskConsumer(ctx, l.conn, l.run)
	if err != nil && (failures > followTries || !retryable(err)) {
		return pulls{}, err
	}
	return pulls{}, nil
}

// ask requests tasks for the callers that no request covers.
func (l *Leases) ask(p *pulls) error {
	l.mu.Lock()
	n := len(l.waiting) - p.asked
	l.mu.Unlock()
	if n <= 0 || p.open >= maxPulls {
		return nil
	}
	n = min(n, subjects.MaxLeaseBatch)
	p.open++
	p.asked += n
	return classify("lease tasks of", string(l.run), l.conn.nc.PublishRequest(l.requests(), l.sub.Subject, pullBody(n)))
}

// pullBody asks the queue for n tasks; a desk reads the number alone.
func pullBody(n int) []byte {
	return fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, n, pullExpiry, pullHeartbeat)
}

// atDesk reports whether tasks come from a [Desk], not from the queue.
func (l *Leases) atDesk() bool { return l.conn.Identity().api != "" }

// silence is how long nothing may come while a request waits.
func (l *Leases) silence() time.Duration {
	if l.atDesk() {
		return deskSilence
	}
	return silence
}

// requests is the subject on which tasks are asked for.
func (l *Leases) requests() string {
	if l.atDesk() {
		return l.run.LeaseSubject(l.conn.Identity().Name)
	}
	return l.conn.api + "CONSUMER.MSG.NEXT." + l.stream + "." + subjects.TaskConsumer
}

// take handles one message: a task or the end of a request.
func (l *Leases) take(ctx context.Context, m *nats.Msg, p *pulls) error {
	if code := status(m); code != "" && len(m.Data) == 0 && m.Reply == "" {
		return l.status(code, m, p)
	}
	if l.atDesk() {
		m.Reply = m.Header.Get(subjects.HeaderLease)
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil
	}
	if p.asked = max(p.asked-1, 0); p.asked == 0 {
		p.open = 0
	}
	lease := &Lease{Task: new(subjects.Task), Deliveries: meta.NumDelivered, conn: l.conn, reply: m.Reply}
	if err := subjects.DecodeMessage(m.Data, lease.Task); err != nil {
		return l.bury(ctx, m, meta, err, lease)
	}
	if !l.hand(leased{lease: lease}) {
		return lease.Nak(0)
	}
	return nil
}

func (l *Leases) status(code string, m *nats.Msg, p *pulls) error {
	switch code {
	case "100":
		return nil
	case "404", "408":
		n, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		p.open, p.asked = max(p.open-1, 0), max(p.asked-n, 0)
		if p.open == 0 {
			p.asked = 0
		}
		return nil
	case "503":
		return classify("lease tasks of", string(l.run), nats.ErrNoResponders)
	}
	return &APIError{Op: "lease tasks of", Subject: string(l.run), Kind: ErrNotFound, Description: code + " " + m.Header.Get("Description")}
}

// hand gives a lease to the caller that has waited longest.
func (l *Leases) hand(v leased) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return false
	}
	l.waiting[0] <- v
	l.waiting = l.waiting[1:]
	return true
}

// bury puts a task that cannot be read out of the way.
func (l *Leases) bury(ctx context.Context, m *nats.Msg, meta *nats.MsgMetadata, why error, lease *Lease) error {
	l.log.Warn().Err(why).Str("subject", m.Subject).Msg("task cannot be read")
	_, err := Bury(ctx, l.conn, l.run, DeadLetter{Stage: "produce", Reason: why.Error(), Source: l.stream,
		Sequence: meta.Sequence.Stream, Item: WholeMessage, Data: m.Data})
	if err != nil && !errors.Is(err, ErrStreamFull) && !errors.Is(err, ErrPermission) {
		return err
	}
	return lease.Term("cannot be read")
}

// fail tells every caller of Next, now and later, why no lease comes.
func (l *Leases) fail(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	for l.hand(leased{err: err}) {
	}
}

// giveBack returns leases that came for nobody.
func (l *Leases) giveBack() {
	if l.atDesk() {
		_ = l.conn.nc.Publish(l.requests(), pullBody(0))
	}
	_ = l.sub.Unsubscribe()
	for {
		select {
		case m := <-l.in:
			if reply := first(m.Reply, m.Header.Get(subjects.HeaderLease)); reply != "" {
				_ = l.conn.nc.Publish(reply, []byte("-NAK"))
			}
		default:
			return
		}
	}
}
