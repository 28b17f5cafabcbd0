package recipe

import (
	"errors"
	"os"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/headrace/headrace/grouper"
)

// LoadPolicy reads a file with some fields of a recipe's section grouper, by
// themselves or under that name, and puts them over a run's own.
func LoadPolicy(file string, own grouper.Config) (grouper.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return own, &Error{File: file, Msg: err.Error()}
	}
	doc := document{file: file}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return own, doc.yamlError(err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return own, &Error{File: file, Msg: "want one YAML document with fields of the recipe's section grouper, such as group_size: 4"}
	}
	doc.root = tree.Docs[0].Body
	if section := child(doc.root, "grouper"); section != nil && len(members(doc.root)) == 1 {
		doc.root = section.Value
	}
	if err := doc.check(doc.root, reflect.TypeFor[grouper.Config](), ""); err != nil {
		return own, err
	}
	p := derived(own)
	if err := yaml.NodeToValue(doc.root, &p); err != nil {
		return own, doc.yamlError(err)
	}
	var f *grouper.FieldError
	if err := p.Validate(); errors.As(err, &f) {
		return own, doc.locate(&FieldError{f.Field, f.Msg})
	} else if err != nil {
		return own, doc.locate(err)
	}
	return p.WithDefaults(), nil
}

// derived is a configuration without what its defaults give anyway, so that they
// follow a change of what they are derived from.
func derived(c grouper.Config) grouper.Config {
	c = c.WithDefaults()
	bare := c
	bare.MinGroupSize, bare.SlotTimeout, bare.Evaluation.Deadline = 0, 0, 0
	full := bare.WithDefaults()
	if c.MinGroupSize == full.MinGroupSize {
		c.MinGroupSize = 0
	}
	if c.SlotTimeout == full.SlotTimeout {
		c.SlotTimeout = 0
	}
	if c.Evaluation.Deadline == full.Evaluation.Deadline {
		c.Evaluation.Deadline = 0
	}
	return c
}
