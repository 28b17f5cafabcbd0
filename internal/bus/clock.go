package bus

import (
	"context"
	"time"

	"github.com/headrace/headrace/subjects"
)

// ServerTime asks the server for its time, with one request that every role may
// make. Half of how long the answer took is how far off it may be.
func ServerTime(ctx context.Context, c *Conn) (time.Time, error) {
	var at time.Time
	name := subjects.BucketStream(subjects.RunsBucket)
	err := guarded(ctx, c, "ask for the time", name, func(ctx context.Context) error {
		st, err := c.js.Stream(ctx, name)
		if err == nil {
			at = st.CachedInfo().TimeStamp
		}
		return err
	})
	return at, err
}
