package app

import (
	"context"
	"errors"

	"github.com/headrace/headrace/internal/bus"
)

// withDesk runs a grouper with the desk that hands its tasks to producers: where
// everybody has credentials of their own, producers may not ask the queue. Each
// grouper has a desk, the one that decides and those that stand by.
func (m *member) withDesk(ctx context.Context, group func(context.Context) error) error {
	if m.conn.Identity().Role == "" {
		return group(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	desk := make(chan error, 1)
	go func() {
		err := bus.Desk(ctx, m.conn, m.run, m.log)
		if err != nil {
			cancel()
		}
		desk <- err
	}()
	err := group(ctx)
	cancel()
	if failed := <-desk; failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return failed
	}
	return err
}
