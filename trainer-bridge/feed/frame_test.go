package feed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/subjects"
)

var limits = Limits{JSON: 1 << 10, Data: 1 << 10}

func frame(t testing.TB, kind Type, body any, data ...byte) []byte {
	b, err := Append(nil, kind, body, len(data))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, data...)
}

func TestFrame_SurvivesTheWire(t *testing.T) {
	wire := append(frame(t, TypeNext, Request{ID: 7}), frame(t, TypeBatch, Batch{ID: 7, Step: 3}, 1, 2, 3)...)
	r := bytes.NewReader(wire)
	f, err := Read(r, limits)
	var q Request
	if err != nil || f.Type != TypeNext || f.Decode(&q) != nil || q.ID != 7 {
		t.Fatalf("%v %v", f, err)
	}
	if f, err = Read(r, limits); err != nil || f.Type != TypeBatch || !bytes.Equal(f.Data, []byte{1, 2, 3}) {
		t.Fatalf("%v %v", f, err)
	}
	if _, err = Read(r, limits); err != io.EOF {
		t.Fatalf("%v, want EOF between frames", err)
	}
}

func TestRead_RefusesBrokenFrames(t *testing.T) {
	good := frame(t, TypeHello, Hello{V: 1})
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint64(huge[16:], 1<<60)
	for name, b := range map[string][]byte{
		"magic": edit(0, 0), "type": edit(4, 99), "flags": edit(6, 1), "zero": edit(12, 1), "json length": edit(10, 255),
		"data length": huge, "no object": append(header{kind: TypeBye, json: 4}.append(nil), "null"...),
		"empty": header{kind: TypeBye}.append(nil),
	} {
		if _, err := Read(bytes.NewReader(b), limits); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := 1; n < len(good); n++ {
		if _, err := Read(bytes.NewReader(good[:n]), limits); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(frame(f, TypeHello, Hello{V: 1, Client: "x"}))
	f.Add(frame(f, TypeBatch, Batch{Arrays: nil}, 1, 2, 3))
	f.Add(frame(f, TypeCommit, Commit{Metrics: map[string]float64{"loss": 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Read(bytes.NewReader(b), limits)
		if err != nil {
			return
		}
		if len(got.JSON) > limits.JSON || len(got.Data) > limits.Data {
			t.Fatalf("over the limits: %d, %d", len(got.JSON), len(got.Data))
		}
		for _, v := range []any{new(Hello), new(Request), new(Release), new(Commit), new(Weights), new(WaitWeights), new(Notice)} {
			_ = got.Decode(v)
		}
	})
}

func TestListen_SocketIsPrivateAndReplacesADeadOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.sock")
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
	if _, err := Listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "another bridge") {
		t.Fatalf("second listener: %v", err)
	}
	l.(*unixListener).UnixListener.Close() // dies without removing it
	l, err = Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("socket left behind: %v", err)
	}
}

func TestSocketPath_IsShortEnough(t *testing.T) {
	if p := SocketPath("/run/x"); p != "/run/x/feed.sock" {
		t.Fatal(p)
	}
	long := SocketPath("/" + strings.Repeat("deep/", 40))
	if _, _, err := ParseAddress("unix:" + long); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ParseAddress("unix:/" + strings.Repeat("x", 200)); err == nil {
		t.Fatal("took a path that no system takes")
	}
}

// TestSpans_GoldenFrame reads what the Python client writes; its tests write it.
func TestSpans_GoldenFrame(t *testing.T) {
	raw, err := os.ReadFile("testdata/spans.frame")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Read(bytes.NewReader(raw), limits)
	var m Spans
	if err != nil || f.Type != TypeSpans || f.Decode(&m) != nil {
		t.Fatalf("%v %v", f, err)
	}
	b := subjects.SpanBatch{At: m.At, Names: m.Names, Name: m.Name, Lane: m.Lane, Start: m.Start, Duration: m.Duration, Args: m.Args}
	spans, err := b.Spans()
	if err != nil || m.ID != 9 || m.Offset != -5 || m.Uncertainty != 3 || m.Dropped != 2 || len(spans) != 3 {
		t.Fatalf("%+v, %v", m, err)
	}
	if x := spans[1]; x.Name != "train step" || x.Start != m.At-1_000_000+50 || x.Duration != 40 || len(x.Args) != 2 || x.Args[1].Value != 0.5 {
		t.Errorf("%+v", x)
	}
}
