package recipe

import (
	"reflect"
	"testing"

	"github.com/goccy/go-yaml"
)

// What a run's record keeps is the recipe as JSON; a role that joins reads it.
func TestRecipe_SurvivesItsRecord(t *testing.T) {
	want, err := Load("../../recipes/frozenlake/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string][]byte{"YAML": text, "JSON": data} {
		got, err := Parse(name, form)
		if err != nil {
			t.Fatalf("%v in\n%s", err, form)
		}
		again, err := got.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(string(again), string(text)) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, again, text)
		}
	}
}

func TestParse_NumbersWithAnExponent(t *testing.T) {
	r, err := Parse("x", []byte("name: x\nenvironment: {name: frozenlake}\ntrainer: {steps: 1, lr: 1e-4, entropy: 2.5e-3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Trainer.LR != 1e-4 || r.Trainer.Entropy != 2.5e-3 {
		t.Errorf("lr %v, entropy %v", r.Trainer.LR, r.Trainer.Entropy)
	}
}

func TestParse_SeveralEnvironmentsAreAMix(t *testing.T) {
	r, err := Parse("x", []byte(`name: x
environments:
  - {name: frozenlake, weight: 2}
  - {name: calculator, agent: tool, min_share: 0.25}
trainer: {steps: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Played(); len(p) != 2 || p[0].Agent != "conversation" || p[1].Agent != "tool" {
		t.Errorf("plays %+v", p)
	}
	if g := r.Grouper.Environments; len(g) != 2 || g[0].Weight != 2 || g[1].Weight != 1 || g[1].MinShare != 0.25 {
		t.Errorf("mix %+v", g)
	}
	_, err = Parse("x", []byte("name: x\nenvironment: {name: frozenlake}\nenvironments: [{name: calculator}]\ntrainer: {steps: 1}\n"))
	if err == nil || err.Error() != "x:2: environment: beside environments: name each in the list, or only one here" {
		t.Errorf("both at once: %v", err)
	}
}
