package export

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestJSONL_ComesBackByteForByte(t *testing.T) {
	c := world(t)
	eventful(t, c)
	want, n := exported(t, c, origin, Filter{})
	if n != (Counts{Trajectories: 8, Events: 7}) || strings.Count(want, "\n") != 9+7 {
		t.Fatalf("%+v of\n%s", n, want)
	}
	if _, n := exported(t, c, origin, Filter{Statuses: []subjects.Status{subjects.Succeeded}}); n.Events != 0 {
		t.Errorf("a part of a run has %d events", n.Events)
	}
	var i *Importer
	importer(t, c, &i, func(to Into) error { return ReadJSONL(strings.NewReader(want), to) })
	if count, err := i.Finish(40); count != 8 || err != nil {
		t.Fatal(count, err)
	}
	have, _ := exported(t, c, copied, Filter{})
	if have != want {
		t.Errorf("exported\n%s\nafter an import\n%s", want, have)
	}
	again, _ := exported(t, c, origin, Filter{})
	if again != want {
		t.Error("the origin changed")
	}
}

// TestJSONL_TakesVersion1: its files have no events, and come back as they are.
func TestJSONL_TakesVersion1(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	want, err := os.ReadFile(filepath.Join("testdata", "v1", "world.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var i *Importer
	importer(t, c, &i, func(to Into) error { return ReadJSONL(bytes.NewReader(want), to) })
	if _, err := i.Finish(1); err != nil {
		t.Fatal(err)
	}
	if have, _ := exported(t, c, copied, Filter{}); have != string(want) {
		t.Errorf("exported\n%s\nafter an import\n%s", want, have)
	}
}

func TestImport_RefusesEventsItDoesNotKnow(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	makeRun(t, c, copied, nil)
	i := NewImporter(t.Context(), c, copied)
	for _, line := range []string{`{"event":"dance","body":{}}`, `{"event":"commit","body":{"metrics":{"loss":"much"}}}`, `{"event":"ack","body":{"engine":"a.b"}}`} {
		if err := ReadJSONL(strings.NewReader(`{"headrace_export":2,"run":"x"}`+"\n"+line), Into{Head: func(*Header, []byte) error { return nil }, Event: i.WriteEvent}); err == nil || !strings.HasPrefix(err.Error(), "line 2: event") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestImport_TakesBodiesLargerThanAMessage: they travel in parts, and keep their place.
func TestImport_TakesBodiesLargerThanAMessage(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	makeRun(t, c, copied, nil)
	i := NewImporter(t.Context(), c, copied)
	var want []string
	for slot := range subjects.Slot(3) {
		tr := played("t1", slot, 1)
		if slot == 1 {
			tr.Messages[1].Content = strings.Repeat("größer ", int(c.MaxPayload())/7)
		}
		want = append(want, tr.ID())
		if err := i.Write(newRecord(tr, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := i.Finish(1); err != nil {
		t.Fatal(err)
	}
	var have []string
	text, _ := exported(t, c, copied, Filter{})
	err := ReadJSONL(strings.NewReader(text), into(func(r *Record) error {
		have = append(have, r.ID)
		return nil
	}))
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("%v, %v", have, err)
	}
}

func TestRead_Filters(t *testing.T) {
	c := world(t)
	for _, k := range []struct {
		name string
		f    Filter
		want uint64
	}{
		{"step", Filter{Steps: []Steps{{1, 1}}}, 3},
		{"steps, with an evaluation's", Filter{Steps: []Steps{{1, 2}}}, 4},
		{"group", Filter{Groups: []subjects.GroupID{"t2", "t3"}}, 3},
		{"producer", Filter{Producers: []string{"p-b2"}}, 1},
		{"environment", Filter{Environments: []string{"none"}}, 0},
		{"kind", Filter{Kinds: []subjects.Kind{subjects.Eval}}, 1},
		{"status", Filter{Statuses: []subjects.Status{subjects.Failed, subjects.Truncated}}, 2},
		{"two at once", Filter{Groups: []subjects.GroupID{"t1"}, Statuses: []subjects.Status{subjects.Succeeded}}, 2},
	} {
		t.Run(k.name, func(t *testing.T) {
			if _, n := exported(t, c, origin, k.f); n.Trajectories != k.want || n.Filtered != 8-k.want {
				t.Errorf("%+v, want %d", n, k.want)
			}
		})
	}
}

func TestReadJSONL_SaysWhatIsWrong(t *testing.T) {
	head := `{"headrace_export":1,"run":"r"}` + "\n"
	for _, k := range []struct{ text, want string }{
		{"hello\n", "not an export of Headrace"},
		{`{"id":"x"}`, "not an export of Headrace"},
		{`{"headrace_export":3}`, "use a newer headrace"},
		{head + "{\n", "line 2"},
	} {
		err := ReadJSONL(strings.NewReader(k.text), into(func(*Record) error { return nil }))
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%q: %v, want %q", k.text, err, k.want)
		}
	}
}
