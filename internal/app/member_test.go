package app

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/internal/recipe"
)

func TestEnsureRun_TakesTheSameRecipeAgainAndNoOther(t *testing.T) {
	m := newMember(t, malformedRecipe)
	for seed, want := range map[int64]error{m.recipe.Seed: nil, m.recipe.Seed + 1: ErrRunExists} {
		r, err := recipe.Parse("lake.yaml", []byte(malformedRecipe))
		if err != nil {
			t.Fatal(err)
		}
		r.Seed = seed
		if err := ensureRun(t.Context(), m.conn, m.run, r, 0); !errors.Is(err, want) {
			t.Errorf("seed %d: %v, want %v", seed, err, want)
		}
	}
	if err := createRecord(t.Context(), m.conn, m.run, m.recipe); !errors.Is(err, ErrRunExists) {
		t.Errorf("%v, want ErrRunExists", err)
	}
}
