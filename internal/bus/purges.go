package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/headrace/headrace/subjects"
)

// Purged is the ROLLOUTS sequence below which the run's log says that it was
// purged on purpose; 0: nothing was.
func Purged(ctx context.Context, c *Conn, run subjects.Run) (below uint64, err error) {
	m, err := Last(ctx, c, run.StreamName(subjects.Weights), run.WeightsSubject(subjects.EventPurged))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var e subjects.PurgedEvent
	if err := subjects.DecodeMessage(m.Data, &e); err != nil {
		return 0, fmt.Errorf("weights message %d: %w", m.Seq, err)
	}
	return e.Below, nil
}

// PurgeRollouts says on WEIGHTS what it is about to purge, then does. A crash
// in between leaves a record of what is still there, which harms nobody.
func PurgeRollouts(ctx context.Context, c *Conn, run subjects.Run, e *subjects.PurgedEvent) error {
	data, err := subjects.EncodeMessage(e)
	if err != nil {
		return err
	}
	id := string(subjects.EventPurged) + "/" + strconv.FormatUint(e.Below, 10)
	if _, err := Send(ctx, c, run.WeightsSubject(subjects.EventPurged), id, nil, data); err != nil {
		return fmt.Errorf("record a purge: %w", err)
	}
	return Purge(ctx, c, run, subjects.Rollouts, e.Below)
}

// StreamSound reports whether every replica of a stream is there and current;
// with one replica, that it answers.
func StreamSound(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream) (sound bool, err error) {
	name := run.StreamName(s)
	err = guarded(ctx, c, "look at", name, func(ctx context.Context) error {
		st, err := c.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		info := st.CachedInfo()
		sound = info.Cluster == nil || info.Cluster.Leader != "" || info.Config.Replicas <= 1
		for i := 0; sound && info.Cluster != nil && i < len(info.Cluster.Replicas); i++ {
			sound = info.Cluster.Replicas[i].Current && !info.Cluster.Replicas[i].Offline
		}
		return nil
	})
	return sound, err
}
