package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/subjects"
)

const (
	deskRequests = 8192                   // requests on their way to a desk
	deskOpen     = 2 * maxPulls           // requests of one producer that are kept
	deskExpiry   = 400 * time.Millisecond // of a request: what comes later would come for a producer that died
	deskBeat     = 100 * time.Millisecond // how often requests are looked through
	deskSilence  = 2 * time.Second        // without an answer the desk is gone
)

// Desk hands out a run's tasks to producers that may not ask the queue
// themselves, until ctx ends. The queue serves who asks most and turns others
// away when too many requests wait; the desk keeps a few requests of each
// producer and gives to each in turn. What a producer asks under is its own
// name: the server saw to that. Several desks may stand; each request is one's.
func Desk(ctx context.Context, c *Conn, run subjects.Run, log zerolog.Logger) error {
	for failures := 1; ; failures++ {
		d := &desk{conn: c, run: run, lines: map[string][]*order{}}
		began := time.Now()
		err := d.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !retryable(err) {
			return err
		}
		log.Debug().Err(err).Msg("lease desk opens again")
		if time.Since(began) > time.Minute {
			failures = 1
		}
		if pause(ctx, backoff(failures, retryMin, retryMax)) != nil || c.awaitUp(ctx) != nil {
			return nil
		}
	}
}

// order is a producer's request: how many tasks it wants, where, until when.
type order struct {
	reply string
	want  int
	ends  time.Time
}

// desk is one goroutine's.
type desk struct {
	conn  *Conn
	run   subjects.Run
	lines map[string][]*order // by producer, oldest first
	turn  []string            // producers that wait, next first
	want  int                 // tasks that are waited for
	p     pulls
	inbox string
}

// serve stands until the connection breaks or ctx ends.
func (d *desk) serve(ctx context.Context) error {
	lost := d.conn.lost()
	if err := ensureTaskConsumer(ctx, d.conn, d.run); err != nil {
		return err
	}
	orders, tasks := make(chan *nats.Msg, deskRequests), make(chan *nats.Msg, leaseBuffer)
	in, err := d.conn.nc.ChanSubscribe(d.conn.nc.NewInbox(), tasks)
	if err != nil {
		return classify("open lease desk of", string(d.run), err)
	}
	defer func() { _ = in.Unsubscribe(); d.giveBack(tasks) }()
	d.inbox = in.Subject
	sub, err := d.conn.nc.ChanQueueSubscribe(d.run.LeaseSubject("*"), subjects.LeaseDesk, orders)
	if err != nil {
		return classify("open lease desk of", string(d.run), err)
	}
	defer func() { _ = sub.Unsubscribe(); d.close() }()
	ctx, done := d.conn.watchDenied(ctx, func(subject string) bool { return subject == d.requests() || subject == sub.Subject })
	defer done()
	beat, quiet := time.NewTicker(deskBeat), time.NewTimer(silence)
	defer beat.Stop()
	defer quiet.Stop()
	for {
		if err := d.pull(); err != nil {
			return err
		}
		select {
		case m := <-orders:
			d.take(m, time.Now())
		case m := <-tasks:
			quiet.Reset(silence)
			if err := d.hand(m); err != nil {
				return err
			}
		case now := <-beat.C:
			d.expire(now)
		case <-quiet.C: // no heartbeat of the queue: the requests are gone
			d.p = pulls{}
			quiet.Reset(silence)
		case <-lost:
			return classify("serve leases of", string(d.run), nats.ErrDisconnected)
		case <-ctx.Done():
			return denialOf(ctx, ctx.Err())
		}
	}
}

func (d *desk) requests() string {
	return d.conn.api + "CONSUMER.MSG.NEXT." + d.run.StreamName(subjects.Tasks) + "." + subjects.TaskConsumer
}

// pull asks the queue for what no request covers.
func (d *desk) pull() error {
	n := min(d.want-d.p.asked, subjects.MaxLeaseBatch)
	if n <= 0 || d.p.open >= maxPulls {
		return nil
	}
	d.p.open++
	d.p.asked += n
	return classify("serve leases of", string(d.run), d.conn.nc.PublishRequest(d.requests(), d.inbox, pullBody(n)))
}

// take notes an order, unless its producer has enough of them here. One that
// wants nothing leaves.
func (d *desk) take(m *nats.Msg, now time.Time) {
	var o struct {
		Batch int `json:"batch"`
	}
	name := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	line := d.lines[name]
	if json.Unmarshal(m.Data, &o) != nil || o.Batch < 0 {
		return
	}
	if o.Batch == 0 {
		d.leave(name)
		return
	}
	if m.Reply == "" || len(line) >= deskOpen {
		return
	}
	if len(line) == 0 {
		d.turn = append(d.turn, name)
	}
	n := min(o.Batch, subjects.MaxLeaseBatch)
	d.lines[name] = append(line, &order{reply: m.Reply, want: n, ends: now.Add(deskExpiry)})
	d.want += n
}

// hand gives a task to the producer whose turn it is.
func (d *desk) hand(m *nats.Msg) error {
	if code := status(m); code != "" && len(m.Data) == 0 && m.Reply == "" {
		return d.status(code, m)
	}
	if d.p.asked = max(d.p.asked-1, 0); d.p.asked == 0 {
		d.p.open = 0
	}
	if len(d.turn) == 0 {
		return classify("give back a task of", string(d.run), d.conn.nc.Publish(m.Reply, []byte("-NAK")))
	}
	name := d.turn[0]
	d.turn = d.turn[1:]
	o := d.lines[name][0]
	o.want--
	d.want--
	if o.want == 0 {
		d.lines[name] = d.lines[name][1:]
	}
	if len(d.lines[name]) > 0 {
		d.turn = append(d.turn, name)
	} else {
		delete(d.lines, name)
	}
	return classify("serve leases of", string(d.run), d.conn.nc.PublishMsg(&nats.Msg{Subject: o.reply,
		Header: withHeader(m.Header, subjects.HeaderLease, m.Reply), Data: m.Data}))
}

// leave takes a producer out of the line.
func (d *desk) leave(name string) {
	for _, o := range d.lines[name] {
		d.want -= o.want
	}
	delete(d.lines, name)
	d.turn = slices.DeleteFunc(d.turn, func(n string) bool { return n == name })
}

func (d *desk) status(code string, m *nats.Msg) error {
	switch code {
	case "100":
		return nil
	case "404", "408":
		n, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if d.p.open, d.p.asked = max(d.p.open-1, 0), max(d.p.asked-n, 0); d.p.open == 0 {
			d.p.asked = 0
		}
		return nil
	case "503":
		return classify("serve leases of", string(d.run), nats.ErrNoResponders)
	}
	return classify("serve leases of", string(d.run), fmt.Errorf("%w: %s %s", nats.ErrTimeout, code, m.Header.Get("Description")))
}

// expire ends the orders whose time is over; who still wants will ask again.
func (d *desk) expire(now time.Time) {
	for name, line := range d.lines {
		line = slices.DeleteFunc(line, func(o *order) bool {
			over := !now.Before(o.ends)
			if over {
				d.want -= o.want
				d.tell(o, "408")
			}
			return over
		})
		if d.lines[name] = line; len(line) == 0 {
			d.leave(name)
		}
	}
}

// tell sends a status as the queue would.
func (d *desk) tell(o *order, code string) {
	_ = d.conn.nc.PublishMsg(&nats.Msg{Subject: o.reply, Header: nats.Header{"Status": {code}, "Nats-Pending-Messages": {strconv.Itoa(o.want)}}})
}

// close sends everybody who waits away, to ask elsewhere.
func (d *desk) close() {
	for _, line := range d.lines {
		for _, o := range line {
			d.tell(o, "409")
		}
	}
}

// giveBack returns tasks that came for nobody.
func (d *desk) giveBack(tasks <-chan *nats.Msg) {
	for len(tasks) > 0 {
		if m := <-tasks; m.Reply != "" {
			_ = d.conn.nc.Publish(m.Reply, []byte("-NAK"))
		}
	}
}
