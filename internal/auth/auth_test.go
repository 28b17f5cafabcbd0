package auth_test

import (
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("demo")

func TestInit_EveryRoleConnects(t *testing.T) {
	s := natstest.NewSecure(t, run)
	admin := s.Connect(t, "admin")
	if err := bus.EnsureStreams(t.Context(), admin, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := bus.CreateRun(t.Context(), admin, &subjects.RunRecord{Run: run, Schema: subjects.SchemaVersion}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"admin", "grouper", "trainer", "engine", "viewer", "producers/p01"} {
		c := s.Connect(t, name)
		r, err := bus.LookupRun(t.Context(), c, run)
		if err != nil || r.Run != run {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
