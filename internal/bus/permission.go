package bus

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// deniedPattern finds the subject in the server's words about a denied permission.
var deniedPattern = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// maxDenied bounds the subjects whose denial is remembered, so that each is
// logged once.
const maxDenied = 256

// asyncError turns a permission violation, which the server reports apart from
// the operation, into the failure of whatever waits on that subject.
func (c *Conn) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	m := deniedPattern.FindStringSubmatch(err.Error())
	if m == nil {
		e := c.log.Warn().Err(err)
		if sub != nil {
			e = e.Str("subject", sub.Subject)
		}
		e.Msg("bus reports an error")
		return
	}
	denied := c.denial(strings.ToLower(m[1]), m[2])
	if denied.Subject == c.calls.inbox+"*" {
		denied.Description = "set the inbox prefix that this user may subscribe to"
		c.calls.denyInbox(denied)
		return
	}
	waited := c.calls.fail(denied, func(subject string) bool { return subject == denied.Subject })
	if c.cancelGuards(denied) || waited > 0 {
		return
	}
	c.mu.Lock()
	known := c.denied[denied.Subject]
	if len(c.denied) < maxDenied {
		c.denied[denied.Subject] = true
	}
	c.mu.Unlock()
	if !known {
		c.log.Warn().Err(denied).Msg("permission is missing")
	}
}

// denial names who may not do what.
func (c *Conn) denial(op, subject string) *APIError {
	do := "publish to it"
	if op == "subscription" {
		op, do = "subscribe to", "subscribe to it"
	}
	return &APIError{Op: op, Subject: subject, Kind: ErrPermission, Description: c.Identity().String() + " may not " + do}
}

func (c *calls) denyInbox(err error) {
	c.mu.Lock()
	c.deny = err
	c.mu.Unlock()
	c.failAll(err)
}

// guard is something under way that a denied permission ends.
type guard struct {
	cancel context.CancelCauseFunc
	match  func(subject string) bool
	call   bool // it waits for one answer, which the end of the connection ends too
}

// cancelGuards ends what the denial concerns, and reports whether there was any.
func (c *Conn) cancelGuards(denied *APIError) (any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.guard {
		if g.match(denied.Subject) {
			g.cancel(denied)
			any = true
		}
	}
	return any
}

// breakCalls ends what waits for an answer: none comes after the connection.
func (c *Conn) breakCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.guard {
		if g.call {
			g.cancel(classify("reach", "server", nats.ErrDisconnected))
		}
	}
}

// watchDenied returns a context that a denial of a matching subject ends, with
// the denial as its cause, and what to call when it is no longer of interest.
func (c *Conn) watchDenied(ctx context.Context, match func(subject string) bool) (context.Context, func()) {
	return c.watch(ctx, &guard{match: match})
}

func (c *Conn) watch(ctx context.Context, g *guard) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	g.cancel = cancel
	c.mu.Lock()
	c.guard[g] = struct{}{}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.guard, g)
		c.mu.Unlock()
		cancel(nil)
	}
}

// denialOf is the denial that ended ctx, or err.
func denialOf(ctx context.Context, err error) error {
	var denied *APIError
	if err != nil && errors.As(context.Cause(ctx), &denied) {
		return denied
	}
	return err
}

// guarded runs a call of the client library so that a permission violation or a
// lost connection fails it at once, with its type, instead of timing out. A violation cannot be
// told to belong to one of several concurrent calls; all of them fail.
//
// A question without an answer is asked again: a cluster that elects its leader
// drops what it is asked meanwhile. So fn must bear to be done twice.
func guarded(ctx context.Context, c *Conn, op, subject string, fn func(context.Context) error) error {
	ctx, done := c.watch(ctx, &guard{match: c.libraryAsks, call: true})
	defer done()
	var err error
	for _, limit := range patience {
		err = within(ctx, limit, fn)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return classify(op, subject, denialOf(ctx, err))
}

// patience is how long a question's tries wait, answerTimeout together: a synced
// write on a loaded disk takes seconds.
var patience = [...]time.Duration{2 * time.Second, 4 * time.Second, answerTimeout - 6*time.Second}

// within runs fn with a time limit; the client library waits as long as that.
func within(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return fn(ctx)
}

// libraryAsks reports whether the client library publishes there.
func (c *Conn) libraryAsks(subject string) bool {
	return (strings.HasPrefix(subject, c.api) || strings.HasPrefix(subject, "$KV.")) && !strings.Contains(subject, "CONSUMER.MSG.NEXT.")
}
