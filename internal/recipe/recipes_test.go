package recipe_test

import (
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/internal/recipe"
)

// TestRecipes_ThatAreShippedLoad: each folder under recipes/ has one that is right.
func TestRecipes_ThatAreShippedLoad(t *testing.T) {
	files, err := filepath.Glob("../../recipes/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d recipes: %v", len(files), err)
	}
	for _, file := range files {
		r, err := recipe.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if folder := filepath.Base(filepath.Dir(file)); filepath.Base(file) == "recipe.yaml" && r.Name != folder {
			t.Errorf("%s is called %s: want its folder's name", file, r.Name)
		}
		if _, err := r.Marshal(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
