package bus

import (
	"context"

	"github.com/headrace/headrace/subjects"
)

// StreamUsage says how many bytes a stream holds, how many it may hold (0: as
// many as there is room for), and the sequence of its last message.
func StreamUsage(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream) (bytes, limit int64, last uint64, err error) {
	name := run.StreamName(s)
	err = guarded(ctx, c, "look up stream", name, func(ctx context.Context) error {
		st, err := c.js.Stream(ctx, name)
		if err == nil {
			info := st.CachedInfo()
			bytes, limit, last = int64(info.State.Bytes), max(0, info.Config.MaxBytes), info.State.LastSeq
		}
		return err
	})
	return bytes, limit, last, err
}

// DropTasks takes what is left in the queue of a run that has ended, whether it
// is leased or not, and returns how much that was. What a producer still holds
// may be acknowledged all the same.
func DropTasks(ctx context.Context, c *Conn, run subjects.Run) (int, error) {
	state, err := StreamState(ctx, c, run, subjects.Tasks)
	if err != nil || state.Msgs == 0 {
		return 0, err
	}
	return int(state.Msgs), Purge(ctx, c, run, subjects.Tasks, state.LastSeq+1)
}
