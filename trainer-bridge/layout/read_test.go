package layout

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/headrace/headrace/subjects"
)

// cell is what a slot says of one token.
type cell struct {
	id        int32
	logprob   float32
	version   int32
	trained   bool
	advantage float32
}

// placed is what a slot says of one row of the batch: its cells in order.
type placed struct {
	cells   []cell
	version int32 // policy_version, where the layout has it
	reward  float32
	group   int32
	length  int32
}

type arrays struct {
	t      testing.TB
	slot   []byte
	filled Filled
}

func (a arrays) find(name string) (Array, bool) {
	for _, x := range a.filled.Arrays {
		if x.Name == name {
			return x, true
		}
	}
	return Array{}, false
}

func (a arrays) raw(name string, i int) uint32 {
	x, ok := a.find(name)
	if !ok {
		a.t.Fatalf("no array %s", name)
	}
	if x.Offset%Alignment != 0 {
		a.t.Fatalf("array %s starts at %d", name, x.Offset)
	}
	if x.DType == Uint8 {
		return uint32(a.slot[x.Offset+i])
	}
	return binary.LittleEndian.Uint32(a.slot[x.Offset+4*i:])
}

func (a arrays) i32(name string, i int) int32   { return int32(a.raw(name, i)) }
func (a arrays) f32(name string, i int) float32 { return math.Float32frombits(a.raw(name, i)) }

func (a arrays) version(i int) int32 {
	if _, ok := a.find("versions"); !ok {
		return 0
	}
	return a.i32("versions", i)
}

func (a arrays) shape(name string) []int {
	x, ok := a.find(name)
	if !ok {
		a.t.Fatalf("no array %s", name)
	}
	return x.Shape
}

// padding fails unless the cells hold no token.
func (a arrays) padding(ids, logprobs, mask string, from, to int, pad int32) {
	for i := from; i < to; i++ {
		if a.i32(ids, i) != pad || a.f32(logprobs, i) != 0 || a.raw(mask, i) != 0 || a.version(i) > 0 {
			a.t.Fatalf("cell %d of %s should be padding", i, ids)
		}
	}
}

// read takes a slot apart again, without the package's own arithmetic: the
// rows of the part in their order, for packed in the order of their first id.
func read(t testing.TB, cfg Config, slot []byte, f Filled) []placed {
	a := arrays{t, slot, f}
	switch cfg.Layout {
	case Packed:
		return a.packed(cfg)
	case PromptCompletion:
		return a.prompts(cfg)
	}
	return a.padded(cfg)
}

func (a arrays) padded(cfg Config) (out []placed) {
	rows, length := a.shape("tokens")[0], a.shape("tokens")[1]
	for r := range rows {
		n := int(a.i32("lengths", r))
		a.padding("tokens", "logprobs", "loss_mask", r*length+n, (r+1)*length, cfg.PadID)
		if r >= a.filled.Rows {
			if n != 0 || a.i32("group_index", r) != -1 || a.i32("policy_version", r) != -1 || a.f32("advantages", r) != 0 {
				a.t.Fatalf("row %d should be empty", r)
			}
			continue
		}
		p := placed{version: a.i32("policy_version", r), reward: a.f32("rewards", r), group: a.i32("group_index", r), length: int32(n)}
		for i := r * length; i < r*length+n; i++ {
			p.cells = append(p.cells, cell{a.i32("tokens", i), a.f32("logprobs", i), a.version(i), a.raw("loss_mask", i) == 1, a.f32("advantages", r)})
		}
		out = append(out, p)
	}
	return out
}

func (a arrays) packed(cfg Config) (out []placed) {
	rows, length := a.shape("tokens")[0], a.shape("tokens")[1]
	for r := range rows {
		var p *placed
		for i := r * length; i < (r+1)*length; i++ {
			id, at := a.i32("segment_ids", i), a.i32("positions", i)
			if id == 0 {
				a.padding("tokens", "logprobs", "loss_mask", i, (r+1)*length, cfg.PadID)
				break
			}
			if at == 0 {
				out = append(out, placed{})
				p = &out[len(out)-1]
			}
			if int(at) != len(p.cells) {
				a.t.Fatalf("position %d where %d is next", at, len(p.cells))
			}
			p.cells = append(p.cells, cell{a.i32("tokens", i), a.f32("logprobs", i), a.version(i), a.raw("loss_mask", i) == 1, a.f32("advantages", i)})
		}
	}
	return out
}

func (a arrays) prompts(cfg Config) (out []placed) {
	rows, p, c := a.shape("prompt_ids")[0], a.shape("prompt_ids")[1], a.shape("completion_ids")[1]
	for r := range rows {
		row := placed{version: a.i32("policy_version", r)}
		for i := r * p; i < (r+1)*p; i++ {
			switch {
			case a.raw("prompt_mask", i) == 1:
				row.cells = append(row.cells, cell{id: a.i32("prompt_ids", i), version: -1, advantage: a.f32("advantages", r)})
			case len(row.cells) > 0 || a.i32("prompt_ids", i) != cfg.PadID:
				a.t.Fatalf("prompt of row %d is not padded on the left", r)
			}
		}
		for i := r * c; i < (r+1)*c && a.i32("completion_ids", i) != cfg.PadID; i++ {
			row.cells = append(row.cells, cell{a.i32("completion_ids", i), a.f32("old_logprobs", i), a.version(i), a.raw("completion_mask", i) == 1, a.f32("advantages", r)})
		}
		if r < a.filled.Rows {
			out = append(out, row)
		} else if len(row.cells) > 0 || row.version != -1 {
			a.t.Fatalf("row %d should be empty", r)
		}
	}
	return out
}

// views encodes the segments into one body and returns its views, as the
// bridge gets them.
func views(t testing.TB, segments ...subjects.Segment) []subjects.SegmentView {
	var buf bytes.Buffer
	traj := &subjects.Trajectory{Kind: subjects.Train, Group: "t0", Environment: "env", Status: subjects.Succeeded, Segments: segments}
	if err := subjects.EncodeTrajectory(&buf, traj); err != nil {
		t.Fatal(err)
	}
	v, err := subjects.ViewBody(buf.Bytes())
	if err == nil {
		err = v.Check(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v.Segments
}
