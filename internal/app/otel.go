package app

import (
	"context"

	"github.com/headrace/headrace/consumers/otel"
	"github.com/headrace/headrace/subjects"
)

type (
	// OtelOptions choose what is told to OpenTelemetry, and where.
	OtelOptions = otel.Options
	// OtelReport says what was.
	OtelReport = otel.Report
)

// Otel sends trajectories of a run as OpenTelemetry spans. The report is there
// beside an error too: how far it came.
func Otel(ctx context.Context, s Source, run subjects.Run, o OtelOptions) (OtelReport, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return OtelReport{Run: run}, err
	}
	defer done()
	if err := known(ctx, conn, run); err != nil {
		return OtelReport{Run: run}, err
	}
	o.Version = BuildInfo().Version
	return otel.Run(ctx, conn, run, o)
}
