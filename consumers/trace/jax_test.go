package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// jaxBegan is the Unix time at which the clock of the tests' profiles begins.
const jaxBegan = int64(1_800_000_000_000_000_000)

func jaxMeta(kind string, pid, tid int, name string) map[string]any {
	return map[string]any{"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": map[string]any{"name": name}}
}

// jaxSpan is an event of so many microseconds.
func jaxSpan(tid int, at, took float64, name string, args map[string]any) map[string]any {
	return map[string]any{"ph": "X", "pid": 7, "tid": tid, "ts": at, "dur": took, "name": name, "args": args}
}

// jaxStory is a step with a call in it, and what ran meanwhile on another thread.
func jaxStory() []any {
	return []any{
		jaxMeta("process_name", 7, 0, "/host:CPU"), jaxMeta("thread_name", 7, 1, "tf_XLA"), jaxMeta("thread_name", 7, 2, "python"),
		jaxSpan(2, 10, 1, jaxClock, map[string]any{"unix_ns": fmt.Sprint(jaxBegan + 9_000)}), // 1 us late
		jaxSpan(2, 20, 100, "train step", map[string]any{"step_num": "3"}),
		jaxSpan(2, 30, 40, "PjitFunction(f)", nil),
		jaxSpan(1, 35, 60, "fusion.1", map[string]any{"hlo_module": "jit_f", "hlo_op": "fusion.1"}),
		jaxSpan(2, 1000, 1, jaxClock, map[string]any{"unix_ns": fmt.Sprint(jaxBegan + 1_000_000)}),
	}
}

// writeJAX puts a profile where JAX would, and returns its folder.
func writeJAX(t testing.TB, events any, info string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "step-000000003-1")
	session := filepath.Join(folder, "plugins", "profile", "2026_11_30")
	must(t, os.MkdirAll(session, 0o755))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must(t, json.NewEncoder(z).Encode(map[string]any{"displayTimeUnit": "ns", "metadata": map[string]any{"highres-ticks": true}, "traceEvents": events}))
	must(t, z.Close())
	must(t, os.WriteFile(filepath.Join(session, "vm.trace.json.gz"), b.Bytes(), 0o644))
	if info != "" {
		must(t, os.WriteFile(filepath.Join(folder, jaxInfo), []byte(info), 0o644))
	}
	return folder
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// always is a window that nothing lies outside of.
var always = JAXOptions{To: 1<<63 - 1}

func TestMergeJAX_PlacesEventsOnTheRunsClock(t *testing.T) {
	folder := writeJAX(t, jaxStory(), "")
	p, err := readJAX(must2(jaxFile(folder)), 100)
	must(t, err)
	began, uncertain, err := p.began(folder)
	if err != nil || began != jaxBegan || uncertain != 1000 {
		t.Fatalf("began at %d, %v off; %v", began-jaxBegan, uncertain, err)
	}
	tracks, report := map[string][]block{}, &JAXReport{}
	p.place(tracks, began+5, always, report)
	python := nest(tracks["/host:CPU python"])
	if len(python) != 1 || python[0].start != jaxBegan+20_005 || python[0].end != jaxBegan+120_005 || len(python[0].inside) != 1 {
		t.Errorf("%+v", python)
	}
	if xla := tracks["/host:CPU tf_XLA"]; len(xla) != 1 || len(xla[0].args) != 2 {
		t.Errorf("%+v", xla)
	}
	var out bytes.Buffer
	r, err := MergeJAX(&out, []string{folder}, always)
	if err != nil || r.Profiles != 1 || r.Tracks != 2 || r.Events != 3 || r.LeftOut != 0 || r.Uncertainty != 1e-6 {
		t.Errorf("%+v, %v", r, err)
	}
	golden(t, "jax.pftrace", out.Bytes())
}

func must2(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// golden compares with a file; with -update it writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs: %d bytes, want %d", name, len(got), len(want))
	}
}

func TestMergeJAX_KeepsTheWindowAndTheLongest(t *testing.T) {
	folder := writeJAX(t, jaxStory(), "")
	var out bytes.Buffer
	r, err := MergeJAX(&out, []string{folder}, JAXOptions{From: jaxBegan + 100_000, To: jaxBegan + 110_000})
	if err != nil || r.Events != 1 {
		t.Errorf("%+v, %v: want the step alone", r, err)
	}
	r, err = MergeJAX(&out, []string{folder}, JAXOptions{To: 1<<63 - 1, MaxEvents: 2})
	if err != nil || r.Events != 2 || r.LeftOut != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	out.Reset()
	r, err = MergeJAX(&out, []string{folder}, JAXOptions{From: 5, To: 6})
	if err != nil || r.Events != 0 || out.Len() != 0 {
		t.Errorf("%+v, %v, %d bytes: want nothing", r, err, out.Len())
	}
}

func TestMergeJAX_WithoutMarksTheFileBesideCounts(t *testing.T) {
	events := []any{jaxSpan(2, 20, 100, "train step", nil)}
	folder := writeJAX(t, events, fmt.Sprintf(`{"started_unix_ns": %d, "stopped_unix_ns": %d}`, jaxBegan, jaxBegan+1e9))
	var out bytes.Buffer
	r, err := MergeJAX(&out, []string{folder}, always)
	if err != nil || r.Events != 1 || r.Uncertainty != 0.1 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = MergeJAX(&out, []string{writeJAX(t, events, "")}, always)
	if !errors.Is(err, ErrJAXClock) || !strings.Contains(err.Error(), "HEADRACE_PROFILE_STEPS") {
		t.Errorf("%v, want what to do", err)
	}
}

func TestJAXProfiles_AreThoseOfTheWindow(t *testing.T) {
	root := filepath.Dir(writeJAX(t, jaxStory(), `{"started_unix_ns": 1000, "stopped_unix_ns": 2000}`))
	must(t, os.Mkdir(filepath.Join(root, "half"), 0o755)) // a profile that was never ended
	for window, want := range map[[2]int64]int{{0, 999}: 0, {0, 1000}: 1, {1500, 1600}: 1, {2000, 9000}: 1, {2001, 9000}: 0} {
		found, err := JAXProfiles(root, window[0], window[1])
		if err != nil || len(found) != want {
			t.Errorf("%v: %v, %v", window, found, err)
		}
	}
	if found, err := JAXProfiles(filepath.Join(root, "nowhere"), 0, 1); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestWrite_MergesTheProfilesOfItsWindow: those that the trainer took, on the
// server's clock; one that is broken costs nothing unless it was asked for.
func TestWrite_MergesTheProfilesOfItsWindow(t *testing.T) {
	w := newWorld(t).story()
	at := func(began int64) string {
		mark := map[string]any{"unix_ns": fmt.Sprint(began + 10_000)}
		return writeJAX(t, []any{jaxMeta("thread_name", 7, 2, "python"), jaxSpan(2, 10, 1, jaxClock, mark), jaxSpan(2, 20, 100, "train step", nil)},
			fmt.Sprintf(`{"started_unix_ns": %d, "stopped_unix_ns": %d}`, began, began+ms))
	}
	inside, before := at(t0+3000*ms), at(t0-3000*ms)
	var buf bytes.Buffer
	r, err := Write(t.Context(), w.conn, run, Options{First: 1, Final: 2, Profiles: filepath.Dir(inside)}, &buf)
	if err != nil || r.JAX == nil || r.JAX.Profiles != 1 || r.JAX.Events != 1 || r.Bytes != int64(buf.Len()) {
		t.Fatalf("%+v, %+v, %v", r, r.JAX, err)
	}
	r, err = Write(t.Context(), w.conn, run, Options{First: 1, Final: 2, Profiles: filepath.Dir(before)}, &buf)
	if err != nil || r.JAX != nil {
		t.Errorf("of another time: %+v, %v", r.JAX, err)
	}
	must(t, os.WriteFile(must2(jaxFile(inside)), []byte("torn"), 0o644))
	r, err = Write(t.Context(), w.conn, run, Options{First: 1, Final: 2, Profiles: filepath.Dir(inside)}, &buf)
	if err != nil || r.JAX == nil || r.JAX.Unread != 1 || r.JAX.Events != 0 {
		t.Errorf("a torn one: %+v, %v", r.JAX, err)
	}
	if _, err = Write(t.Context(), w.conn, run, Options{First: 1, Final: 2, JAX: []string{inside}}, &buf); err == nil {
		t.Error("a torn one that was asked for is passed over")
	}
}

// TestMergeJAX_OddProfiles: a profile is a file like any other and may be anything.
func TestMergeJAX_OddProfiles(t *testing.T) {
	for name, events := range map[string][]any{
		"times": {jaxSpan(1, -5, 1, "a", nil), jaxSpan(1, 1e300, 1, "b", nil), jaxSpan(1, 5, -1, "c", nil), jaxSpan(1, 5, 1e300, "d", nil)},
		"marks": {jaxSpan(1, 1, 1, jaxClock, map[string]any{"unix_ns": "soon"}), jaxSpan(1, 1, 1, jaxClock, map[string]any{"unix_ns": -4}), jaxSpan(1, 1, 1, jaxClock, nil)},
		"names": {jaxSpan(1, 5, 5, strings.Repeat("é", 5000), map[string]any{"hlo_op": []int{1}, "long_name": strings.Repeat("x", 1e5)})},
		"kinds": {map[string]any{"ph": "B"}, map[string]any{"ph": "M", "name": "thread_name"}, map[string]any{}},
	} {
		folder := writeJAX(t, append(jaxStory(), events...), "")
		r, err := MergeJAX(&bytes.Buffer{}, []string{folder}, always)
		if err != nil || r.Events < 3 || r.Events > 4 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	deep := jaxStory()
	for i := range 50_000 {
		deep = append(deep, jaxSpan(2, 2000+float64(i)/1000, 1e6, "deep", nil))
	}
	if r, err := MergeJAX(&bytes.Buffer{}, []string{writeJAX(t, deep, "")}, always); err != nil || r.Events != 50_003 {
		t.Errorf("deep: %+v, %v", r, err)
	}
	for name, events := range map[string]any{"no list": 5, "list of lists": []any{[]any{}}, "text as time": []any{map[string]any{"ph": "X", "ts": "x"}}} {
		if _, err := MergeJAX(&bytes.Buffer{}, []string{writeJAX(t, events, "")}, always); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	path := filepath.Join(t.TempDir(), "cut.trace.json.gz")
	whole, err := os.ReadFile(must2(jaxFile(writeJAX(t, jaxStory(), ""))))
	must(t, err)
	must(t, os.WriteFile(path, whole[:len(whole)/2], 0o644))
	if _, err := MergeJAX(&bytes.Buffer{}, []string{path}, always); err == nil {
		t.Error("half a file: taken")
	}
}

func FuzzJAX(f *testing.F) {
	text, err := json.Marshal(map[string]any{"traceEvents": jaxStory()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"a":[{}],"traceEvents":[{"ph":"X","ts":1e11,"dur":1e11,"name":"headrace clock","args":{"unix_ns":"9223372036854775807"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := &jaxProfile{processes: map[int64]string{}, threads: map[jaxThread]string{}}
		if p.read(json.NewDecoder(bytes.NewReader(text)), 50) != nil {
			return
		}
		began, _, err := p.began("/nowhere/x")
		if err != nil {
			return
		}
		tracks := map[string][]block{}
		p.place(tracks, began, always, &JAXReport{})
		must(t, drawJAX(&bytes.Buffer{}, tracks, &JAXReport{}))
		for _, blocks := range tracks {
			for _, b := range blocks {
				if b.end < b.start {
					t.Fatalf("%+v", b)
				}
			}
		}
	})
}
