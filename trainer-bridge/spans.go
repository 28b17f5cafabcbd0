package trainerbridge

import (
	"context"

	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
)

// bridgeSpans record how batches are built and waited for. The zero value
// records nothing.
type bridgeSpans struct {
	*spans.Recorder
	build, load, wait, step spans.Name
}

func newBridgeSpans(instance string) bridgeSpans {
	r := spans.New("bridge", instance, 0)
	return bridgeSpans{r, r.Name("build batch"), r.Name("load bodies"), r.Name("trainer waits"), r.Name("step")}
}

// Lanes of a trainer process, by its rank.
func buildLane(rank int) int32 { return 2 * int32(rank) }
func waitLane(rank int) int32  { return 2*int32(rank) + 1 }

// did records what ended now, for a step.
func (s *bridgeSpans) did(n spans.Name, lane int32, start int64, step subjects.Step) {
	s.Record(n, lane, start, s.Now(), spans.Arg{Key: s.step, Value: float64(step)})
}

// reportSpans sends what was recorded. Spans that get lost are counted.
func (b *bridge) reportSpans(ctx context.Context) error {
	if err := b.stats.spans.Run(ctx, b.Conn, b.Run); err != nil {
		b.Log.Debug().Err(err).Msg("report spans")
	}
	return ctx.Err()
}
