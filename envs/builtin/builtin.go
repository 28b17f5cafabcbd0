// Package builtin lists the environments that come with Headrace.
package builtin

import (
	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/calculator"
	"github.com/headrace/headrace/envs/frozenlake"
)

// Specs returns a new registry of the built-in environments, to which a
// program may add its own.
func Specs() envs.Registry {
	return envs.Registry{
		calculator.Name: calculator.Spec(),
		frozenlake.Name: frozenlake.Spec(),
	}
}
