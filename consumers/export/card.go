package export

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// card is the dataset's README.md: the features, as the datasets library reads
// them, and how to load it.
func (d *dataset) card() string {
	var b strings.Builder
	b.WriteString("---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\ndataset_info:\n  features:\n")
	features(&b, reflect.TypeFor[row](), "  ")
	fmt.Fprintf(&b, "  splits:\n  - name: train\n    num_bytes: %d\n    num_examples: %d\n  download_size: %d\n  dataset_size: %d\n", d.bytes, d.rows, d.bytes, d.bytes)
	fmt.Fprintf(&b, `tags:
- reinforcement-learning
- agent
- headrace
---

# Rollouts of run %s

A row is one segment of a trajectory: token ids, and for each of them a loss mask, the sampler's logprob
and the policy version that sampled it (0 and -1 where nobody did). What is said of the trajectory is in
each of its rows. One that ended before it had a segment is a row with segment -1.

`+"```python\nfrom datasets import load_dataset\n\nrows = load_dataset(\"PATH OF THIS FOLDER\", split=\"train\")\n```\n", d.head.Run)
	return b.String()
}

// features lists the fields of a struct as YAML.
func features(b *strings.Builder, t reflect.Type, indent string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		fmt.Fprintf(b, "%s- name: %s\n", indent, name)
		switch {
		case f.Type.Kind() != reflect.Slice:
			fmt.Fprintf(b, "%s  dtype: %s\n", indent, dtype(f.Type))
		case f.Type.Elem().Kind() == reflect.Struct:
			fmt.Fprintf(b, "%s  list:\n", indent)
			features(b, f.Type.Elem(), indent+"  ")
		default:
			fmt.Fprintf(b, "%s  list: %s\n", indent, dtype(f.Type.Elem()))
		}
	}
}

// dtype is the library's name of a type.
func dtype(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "timestamp[ns, tz=UTC]"
	}
	return t.Kind().String()
}
