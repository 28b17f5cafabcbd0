package bus

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

// deniedPattern finds the subject in the server's words about a denied permission.
var deniedPattern = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

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
	denied := &APIError{Op: strings.ToLower(m[1]), Subject: m[2], Kind: ErrPermission, Description: "the server's configuration does not allow it for this user"}
	if m[2] == c.calls.inbox+"*" {
		denied.Description = "set the inbox prefix that this user may subscribe to"
		c.calls.denyInbox(denied)
		return
	}
	c.calls.fail(denied, func(subject string) bool { return subject == m[2] })
	if !strings.HasPrefix(m[2], c.api) { // the client library asks there
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.guard {
		g.cancel(denied)
	}
}

func (c *calls) denyInbox(err error) {
	c.mu.Lock()
	c.deny = err
	c.mu.Unlock()
	c.failAll(err)
}

// guard is one call of the client library that a denied permission ends.
type guard struct{ cancel context.CancelCauseFunc }

// guarded runs a call of the client library so that a permission violation
// fails it at once, with its type, instead of timing out. A violation cannot be
// told to belong to one of several concurrent calls; all of them fail.
func guarded(ctx context.Context, c *Conn, op, subject string, fn func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, answerTimeout) // the library waits as long as the context
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := &guard{cancel}
	c.mu.Lock()
	c.guard[g] = struct{}{}
	c.mu.Unlock()
	err := fn(ctx)
	c.mu.Lock()
	delete(c.guard, g)
	c.mu.Unlock()
	var denied *APIError
	if err != nil && errors.As(context.Cause(ctx), &denied) {
		return denied
	}
	return classify(op, subject, err)
}
