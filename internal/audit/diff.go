package audit

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// difference says where an entry first differs from what follows from the log.
func difference(want, have *subjects.Entry) (subjects.Step, subjects.GroupID, string) {
	path, w, h := firstDifference("", reflect.ValueOf(*want), reflect.ValueOf(*have))
	if path == "" {
		return 0, "", "equal, but encoded otherwise"
	}
	step, group := place(path, have)
	return step, group, fmt.Sprintf("%s is %s, must be %s", strings.TrimPrefix(path, "."), h, w)
}

// place names the step and group that a path leads through.
func place(path string, e *subjects.Entry) (step subjects.Step, group subjects.GroupID) {
	var i, k int
	if n, _ := fmt.Sscanf(path, ".batches[%d].groups[%d]", &i, &k); n > 0 && i < len(e.Batches) {
		if n > 1 && k < len(e.Batches[i].Groups) {
			group = e.Batches[i].Groups[k].Group
		}
		return e.Batches[i].Step, group
	}
	if n, _ := fmt.Sscanf(path, ".verdicts[%d]", &i); n > 0 && i < len(e.Verdicts) {
		group = e.Verdicts[i].Group
	}
	return step, group
}

func firstDifference(path string, want, have reflect.Value) (at, w, h string) {
	switch want.Kind() {
	case reflect.Struct:
		for i := range want.NumField() {
			f := want.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			if at, w, h = firstDifference(path+"."+name, want.Field(i), have.Field(i)); at != "" {
				return at, w, h
			}
		}
	case reflect.Slice:
		for i := range min(want.Len(), have.Len()) {
			if at, w, h = firstDifference(fmt.Sprintf("%s[%d]", path, i), want.Index(i), have.Index(i)); at != "" {
				return at, w, h
			}
		}
		if want.Len() != have.Len() {
			return path, fmt.Sprintf("%d long", want.Len()), fmt.Sprintf("%d long", have.Len())
		}
	default:
		if !want.Equal(have) {
			return path, short(want), short(have)
		}
	}
	return "", "", ""
}

// short is a value in a sentence.
func short(v reflect.Value) string {
	s := fmt.Sprint(v.Interface())
	return s[:min(len(s), 80)]
}
