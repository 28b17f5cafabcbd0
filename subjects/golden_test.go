package subjects

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files that are missing; existing ones never change")

// golden compares got with the file, which -update writes if there is none: a
// released vector is never overwritten, delete it by hand if you must.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "v1", name)
	want, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		want, err = got, os.WriteFile(path, got, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: bytes changed: the wire format of a released version is fixed\n got %x\nwant %x", name, got, want)
	}
}

// asJSON describes v for the tests of other languages.
func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestGolden_BodiesKeepTheirBytes(t *testing.T) {
	for name, tr := range trajectories() {
		t.Run(name, func(t *testing.T) {
			body := encoded(t, tr)
			golden(t, name+".msgpack", body)
			golden(t, name+".json", asJSON(t, tr))
			e := tr.Index()
			e.Offset, e.Length, e.Checksum = 0, len(body), Checksum(body)
			golden(t, name+".index", []byte(e.String()+"\n"))
		})
	}
}

func TestGolden_MessagesKeepTheirBytes(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			b, err := EncodeMessage(m)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".msgpack", b)
			golden(t, name+".json", asJSON(t, m))
		})
	}
}

func TestGolden_BodiesDecodeToWhatTheirDescriptionSays(t *testing.T) {
	for name, want := range trajectories() {
		t.Run(name, func(t *testing.T) {
			body := vector(t, name+".msgpack")
			got, err := DecodeTrajectory(body)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			e, err := ParseIndex(string(bytes.TrimSpace(vector(t, name+".index"))))
			if err != nil {
				t.Fatal(err)
			}
			if e.Length != len(body) || e.Checksum != Checksum(body) {
				t.Errorf("index entry %v of a body of %d bytes, checksum %x", e.String(), len(body), Checksum(body))
			}
			fromJSON := &Trajectory{}
			if err := json.Unmarshal(vector(t, name+".json"), fromJSON); err != nil {
				t.Fatal(err)
			}
			if string(asJSON(t, fromJSON)) != string(asJSON(t, got)) {
				t.Error("the JSON description differs from the body")
			}
		})
	}
}

func TestGolden_MessagesDecodeToWhatTheyWere(t *testing.T) {
	for name, want := range messages() {
		t.Run(name, func(t *testing.T) {
			got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
			if err := DecodeMessage(vector(t, name+".msgpack"), got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestGolden_EveryVectorBelongsToASample(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "v1", "*.msgpack"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(trajectories()) + len(messages()); len(paths) != want {
		t.Errorf("%d vectors for %d samples", len(paths), want)
	}
}

func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "v1", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encoded(t testing.TB, tr *Trajectory) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := EncodeTrajectory(&buf, tr); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestWorkedExampleOfTheDocumentation_IsAccepted reads what the Python example
// of docs/wire.md wrote; the Python tests hold the example to the same bytes.
func TestWorkedExampleOfTheDocumentation_IsAccepted(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "wire_example.txt"))
	if err != nil {
		t.Fatal(err)
	}
	dump, line, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	body, err := hex.DecodeString(dump)
	if err != nil {
		t.Fatal(err)
	}
	v, err := ViewBody(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Check(100); err != nil {
		t.Error(err)
	}
	want := v.Index()
	want.Length, want.Checksum = len(body), Checksum(body)
	if got, err := ParseIndex(line); err != nil || got != want {
		t.Errorf("index entry %v, %v, want %v", got.String(), err, want.String())
	}
}
