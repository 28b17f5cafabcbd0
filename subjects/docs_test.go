package subjects

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDocs_NameEveryFieldThatTravels keeps docs/wire.md whole: every key of every
// message and body, every header, every field of a stream's configuration.
func TestDocs_NameEveryFieldThatTravels(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "docs", "wire.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{HeaderIndex: true, HeaderProducer: true, HeaderCounter: true, HeaderParts: true,
		HeaderReason: true, HeaderSource: true, HeaderSequence: true, HeaderItem: true, HeaderID: true, HeaderBytes: true}
	for _, m := range messages() {
		keys(reflect.TypeOf(m).Elem(), want)
	}
	c := &cursor{b: vector(t, "plain.msgpack")}
	c.fields(func(key []byte) bool { want[string(key)] = true; return false })
	for _, s := range Streams() {
		set(reflect.ValueOf(Run("r").StreamConfig(s, StreamOptions{})), want)
	}
	set(reflect.ValueOf(TaskConsumerConfig(time.Second)), want)
	for name := range want {
		if !strings.Contains(string(raw), "`"+name+"`") {
			t.Errorf("docs/wire.md does not name `%s`", name)
		}
	}
}

// keys collects the keys of a message type and of what it contains.
func keys(t reflect.Type, into map[string]bool) {
	for _, f := range plan(t) {
		into[f.name] = true
		x := t.Field(f.index).Type
		for x.Kind() == reflect.Slice {
			x = x.Elem()
		}
		if x.Kind() == reflect.Struct {
			keys(x, into)
		}
	}
}

// set collects the names of a configuration's fields that are not zero.
func set(v reflect.Value, into map[string]bool) {
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			into[v.Type().Field(i).Name] = true
		}
	}
}
