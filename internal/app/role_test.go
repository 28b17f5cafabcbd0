package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

func TestUntilEnd_EndsARoleWithTheRun(t *testing.T) {
	m, ctx := newMember(t, malformedRecipe), limited(t)
	data, err := subjects.EncodeMessage(&subjects.Entry{Low: 1, End: "complete"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Append(ctx, m.conn, m.run.LedgerSubject(), nil, data, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.lastWord(ctx); err != nil {
		t.Fatal(err)
	}
	err = m.untilEnd(ctx, func(role context.Context) error {
		<-role.Done()
		return nil
	})
	if err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	err = m.untilEnd(ctx, func(role context.Context) error { // it was about to begin
		<-role.Done()
		return fmt.Errorf("lease tasks: %w", role.Err())
	})
	if err != nil {
		t.Errorf("%v, want none: the run has ended", err)
	}
	want := errors.New("of its own")
	if err := m.untilEnd(ctx, func(context.Context) error { return want }); err != want { //nolint:errorlint // the very same
		t.Errorf("%v, want the role's own error", err)
	}
}
