package envs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/builtin"
)

func TestRegistry_UnknownNameListsTheKnown(t *testing.T) {
	_, err := builtin.Specs().New("frozen-lake", nil)
	if want := `unknown environment "frozen-lake": known are calculator, frozenlake`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRegistry_ErrorNamesTheEnvironment(t *testing.T) {
	_, err := builtin.Specs().New("calculator", json.RawMessage(`{"max_turns":0}`))
	if err == nil || !strings.HasPrefix(err.Error(), "environment calculator: parameter max_turns") {
		t.Error(err)
	}
}

func TestRegistry_NamesAreThoseOfTheSpecs(t *testing.T) {
	for name, spec := range builtin.Specs() {
		if spec.Name != name {
			t.Errorf("%q is registered as %q", spec.Name, name)
		}
		env, err := builtin.Specs().New(name, json.RawMessage("null"))
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDescribeParams_TellsTypeAndDefault(t *testing.T) {
	want := []envs.Param{
		{Name: "map", Type: "random, 4x4, 8x8 or a list of rows", Default: `"random"`},
		{Name: "size", Type: "whole number", Default: "4"},
		{Name: "holes", Type: "number", Default: "0.15"},
	}
	for i, p := range builtin.Specs()["frozenlake"].Params[:3] {
		p.Doc = ""
		if p != want[i] {
			t.Errorf("%+v, want %+v", p, want[i])
		}
	}
}

func TestNewRand_SeedsAndStreamsAreApart(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range int64(1000) {
		for stream := range uint64(4) {
			seen[envs.NewRand(seed, stream).Uint64()] = true
		}
	}
	if len(seen) != 4000 {
		t.Errorf("%d distinct first numbers of 4000", len(seen))
	}
	if a, b := envs.NewRand(-7, 3).Uint64(), envs.NewRand(-7, 3).Uint64(); a != b {
		t.Error("one seed, two sequences")
	}
}
