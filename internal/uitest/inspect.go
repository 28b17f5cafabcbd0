package uitest

import _ "embed"

// inspector is what [Tab.Inspect] evaluates.
//
//go:embed inspect.js
var inspector string

// Inspect looks for what a person would miss or stumble over on the page as it
// stands: landmarks, headings and names, width, values that are none, and contrast.
func (t *Tab) Inspect() ([]string, error) {
	faults, err := Ask[[]string](t, inspector)
	return append(faults, t.Faults()...), err
}
