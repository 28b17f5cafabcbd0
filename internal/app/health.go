package app

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
)

// How a role shows that it lives.
const (
	beatEvery   = 2 * time.Second
	beatTimeout = 5 * time.Second // of a round trip to the bus
	beatOld     = 15 * time.Second
)

// heartbeat renews a file while the bus answers, until the returned function
// is called, which removes it. Whether anything moves is no question of this
// process alone: that is the run's watchdog's.
func heartbeat(conn *bus.Conn, file string, log zerolog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer os.Remove(file) //nolint:errcheck // an old one is as good as none
		for ctx.Err() == nil {
			if err := beat(ctx, conn, file); err != nil {
				log.Debug().Err(err).Msg("no heartbeat")
			}
			select {
			case <-ctx.Done():
			case <-time.After(beatEvery):
			}
		}
	}()
	return func() { cancel(); <-done }
}

// beat asks the bus for a sign of life and notes the time.
func beat(ctx context.Context, conn *bus.Conn, file string) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	if err := conn.NC().FlushWithContext(ctx); err != nil {
		return fmt.Errorf("reach the bus: %w", err)
	}
	return writeFile(file, strconv.AppendInt(nil, time.Now().UnixNano(), 10))
}

// Health returns how long ago the role that renews a file had an answer from
// the bus, and an error if that is too long.
func Health(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("no role runs here, or none has reached the bus yet: %w", err)
	}
	nanos, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read heartbeat %s: %w", file, err)
	}
	age := time.Since(time.Unix(0, nanos))
	if age > beatOld {
		return age, fmt.Errorf("the bus has not answered for %s", age.Round(time.Second))
	}
	return age, nil
}
