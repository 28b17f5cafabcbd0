package app

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

const testRun = subjects.Run("lake-1")

// newMember makes a run of a recipe on a real server and joins it.
func newMember(t *testing.T, text string) *member {
	t.Helper()
	conn := natstest.Connect(t, natstest.InProcess(t))
	r, err := recipe.Parse("lake.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.EnsureStreams(t.Context(), conn, testRun, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := createRecord(t.Context(), conn, testRun, r); err != nil {
		t.Fatal(err)
	}
	m, err := join(t.Context(), conn, testRun, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// parts is a stack that ends with the test, which a part that fails fails.
func parts(t *testing.T) *stack {
	s := newStack(zerolog.Nop())
	t.Cleanup(func() {
		s.stop()
		select {
		case <-s.failed:
			t.Error(s.err)
		default:
		}
	})
	return s
}

// limited bounds a whole test: a hang is a failure.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func encoded(t *testing.T, tr *subjects.Trajectory) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := subjects.EncodeTrajectory(&buf, tr); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
