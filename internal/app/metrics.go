package app

import (
	"context"
	"errors"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/metrics"
	"github.com/headrace/headrace/subjects"
)

// MetricsOptions are what `headrace metrics` is told.
type MetricsOptions struct {
	Addr string // to listen on, as in ":9464"
	// Roles adds what every role says of itself, summed over its instances: not
	// for those who scrape the roles themselves.
	Roles bool
}

// Metrics serves a run's numbers to Prometheus until ctx ends: those that follow
// from its log and, if asked for, from what its roles report.
func Metrics(ctx context.Context, s Source, run subjects.Run, o MetricsOptions) error {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return err
	}
	defer done()
	if err := known(ctx, conn, run); err != nil {
		return err
	}
	environments, steps := []string(nil), subjects.Step(0)
	if m, err := join(ctx, conn, run, s.Log); err == nil {
		environments, steps = m.environments(), subjects.Step(m.recipe.Trainer.Steps)
	} else {
		s.Log.Info().Err(err).Msg("the recipe cannot be read: all environments are counted as one")
	}
	page := metrics.Page{Addr: o.Addr, Version: BuildInfo().Version, Run: run, Log: metrics.NewLog(environments, steps)}
	if o.Roles {
		page.Reports = metrics.NewReports()
	}
	stop, err := page.Serve(ctx, conn, s.Log)
	if err != nil {
		return err
	}
	defer stop()
	return metrics.Follow(ctx, conn, run, page.Log, page.Reports)
}

// environments are the names that the run's tasks may have.
func (m *member) environments() (names []string) {
	for i := range m.plays {
		names = append(names, m.plays[i].Name)
	}
	return names
}

// exported runs a role, and meanwhile serves what it reports of itself, if an
// address for that was given.
func (m *member) exported(ctx context.Context, addr string, own []metrics.Own, role func() error) error {
	if addr == "" {
		return role()
	}
	page := metrics.Page{Addr: addr, Version: BuildInfo().Version, Run: m.run, Reports: metrics.NewReports()}
	silence, err := metrics.Tap(m.conn, m.run, own, page.Reports)
	if err != nil {
		return err
	}
	defer silence()
	stop, err := page.Serve(ctx, m.conn, m.log)
	if err != nil {
		return err
	}
	defer stop()
	return role()
}

// startMetrics serves the numbers of everything that `up` runs, and of whoever
// joins: one page for the run.
func (u *up) startMetrics(ctx context.Context, conn *bus.Conn) error {
	if u.o.Metrics == "" {
		return nil
	}
	page := metrics.Page{Addr: u.o.Metrics, Version: BuildInfo().Version, Run: u.run, Reports: metrics.NewReports(),
		Log: metrics.NewLog(u.member.environments(), subjects.Step(u.member.recipe.Trainer.Steps))}
	stop, err := page.Serve(ctx, conn, u.log)
	if err != nil {
		return err
	}
	u.parts.start("metrics", func(ctx context.Context) error {
		defer stop()
		err := metrics.Follow(ctx, conn, u.run, page.Log, page.Reports)
		if !errors.Is(err, context.Canceled) {
			u.log.Warn().Err(err).Msg("the metrics stand still: the run goes on without them")
			<-ctx.Done()
		}
		return nil
	})
	return nil
}
