package app

import (
	"context"

	"github.com/rs/zerolog"
)

// ResolveRecipe is a recipe with every default in place, as YAML.
func ResolveRecipe(path string) (string, error) {
	r, err := loadRecipe(path, nil)
	if err != nil {
		return "", err
	}
	text, err := r.Marshal()
	return string(text), err
}

// Demos writes the demonstrations of a recipe's warm start to a file.
func Demos(ctx context.Context, path, out string, log zerolog.Logger) error {
	r, err := loadRecipe(path, nil)
	if err != nil {
		return err
	}
	m := &member{recipe: r, log: log}
	if m.plays, m.tok, err = playsOf(r); err != nil {
		return err
	}
	return m.writeDemos(ctx, out)
}
