package layout

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/subjects"
)

var kinds = []Kind{Padded, Packed, PromptCompletion}

// idsPerRow makes every token id of a batch unique: row r has the ids from r*idsPerRow+1.
const idsPerRow = 1000

// drawSegment draws a segment of up to max tokens: alternating observed and
// sampled stretches, versions that rise, part of the sampled tokens trained on.
func drawSegment(t *rapid.T, row, max int) subjects.Segment {
	n := rapid.IntRange(1, max).Draw(t, "tokens")
	s := subjects.Segment{Parent: -1}
	for i := range n {
		s.Tokens = append(s.Tokens, int32(row*idsPerRow+1+i))
	}
	version := rapid.IntRange(0, 3).Draw(t, "version")
	for at := rapid.IntRange(0, n).Draw(t, "prompt"); at < n; {
		end := rapid.IntRange(at+1, n).Draw(t, "end")
		s.Versions = append(s.Versions, subjects.VersionSpan{Start: int32(at), End: int32(end), Version: subjects.PolicyVersion(version)})
		for i := at; i < end; i++ {
			s.Logprobs = append(s.Logprobs, -0.5-float32(row*idsPerRow+i))
		}
		if from := rapid.IntRange(at, end).Draw(t, "mask"); from < end {
			s.LossMask = append(s.LossMask, subjects.Span{Start: int32(from), End: int32(end)})
		}
		version += rapid.IntRange(0, 1).Draw(t, "newer")
		at = rapid.IntRange(end, n).Draw(t, "next")
	}
	return s
}

// expected is what any layout must say of the row.
func expected(s subjects.Segment, r Row) placed {
	p := placed{version: -1, reward: r.Reward, group: r.Group, length: int32(len(s.Tokens))}
	for _, id := range s.Tokens {
		p.cells = append(p.cells, cell{id: id, version: -1, advantage: r.Advantage})
	}
	next := 0
	for _, v := range s.Versions {
		for i := v.Start; i < v.End; i++ {
			p.cells[i].version, p.cells[i].logprob = int32(v.Version), s.Logprobs[next]
			next++
		}
		if p.version == -1 || int32(v.Version) < p.version {
			p.version = int32(v.Version)
		}
	}
	for _, m := range s.LossMask {
		for i := m.Start; i < m.End; i++ {
			p.cells[i].trained = !r.Masked
		}
	}
	return p
}

type batch struct {
	segments []subjects.Segment
	rows     []Row
	want     []placed
}

func drawBatch(t *rapid.T, tb testing.TB, max int) batch {
	b := batch{}
	n := rapid.IntRange(0, 20).Draw(t, "rows")
	if n == 0 {
		return b
	}
	for i := range n {
		b.segments = append(b.segments, drawSegment(t, i, max))
	}
	v := views(tb, b.segments...)
	for i := range b.segments {
		r := Row{Segment: &v[i], Tokens: v[i].Len(), Advantage: float32(i) - 7, Reward: float32(i), Group: int32(i / 4),
			Masked: rapid.Float64Range(0, 1).Draw(t, "masked") < .1}
		b.rows = append(b.rows, r)
		b.want = append(b.want, expected(b.segments[i], r))
	}
	return b
}

func drawConfig(t *rapid.T, kind Kind) Config {
	return Config{
		Layout: kind, Buckets: []int{8, 20, 48}, RowTokens: rapid.IntRange(48, 120).Draw(t, "row tokens"), PromptTokens: 48,
		Rows: rapid.SampledFrom([]int{1, 3, 8}).Draw(t, "unit"), TokenVersions: rapid.Bool().Draw(t, "versions"),
		PadID: 999_999,
	}.WithDefaults()
}

// TestLayouts_HoldEveryTokenExactlyOnce is the conformance suite of the seam:
// every token of the batch is in the slot once, with its id, logprob, version,
// mask and advantage, all else is padding, and what the slot held before does
// not show.
func TestLayouts_HoldEveryTokenExactlyOnce(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				b, cfg := drawBatch(rt, t, 48), drawConfig(rt, kind)
				world := rapid.IntRange(1, 3).Draw(rt, "world")
				var got []placed
				for rank := range world {
					slot, f := fill(t, cfg, b.rows, Part{rank, world}, byte(rapid.IntRange(0, 255).Draw(rt, "dirt")))
					if kind != Packed && f.Rows > 0 && f.First != len(got) {
						t.Fatalf("rank %d starts at row %d, not %d", rank, f.First, len(got))
					}
					got = append(got, read(t, cfg, slot, f)...)
				}
				compare(t, cfg, got, b.want)
			})
		})
	}
}

// fill lays the batch out in a dirty slot and in a clean one, wants the same
// bytes, and returns them.
func fill(t testing.TB, cfg Config, rows []Row, part Part, dirt byte) ([]byte, Filled) {
	w, err := NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	slot, clean := bytes.Repeat([]byte{dirt}, cfg.SlotBytes()), make([]byte, cfg.SlotBytes())
	f, err := w.Fill(slot, rows, part)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Fill(clean, rows, part); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(slot[:f.Bytes], clean[:f.Bytes]) {
		t.Fatal("the slot's earlier contents show")
	}
	return slot, f
}

func compare(t testing.TB, cfg Config, got, want []placed) {
	t.Helper()
	if cfg.Layout == Packed {
		slices.SortFunc(got, func(a, b placed) int { return cmp.Compare(a.cells[0].id, b.cells[0].id) })
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if cfg.Layout == Packed {
			w.version = 0
		}
		if cfg.Layout != Padded {
			w.reward, w.group, w.length = 0, 0, 0
		}
		if !cfg.TokenVersions {
			for k := range w.cells {
				w.cells[k].version = 0
			}
			for k := range g.cells {
				g.cells[k].version = 0
			}
		}
		if fmt.Sprint(g) != fmt.Sprint(w) {
			t.Fatalf("row %d is\n%v, want\n%v", i, g, w)
		}
	}
}

func TestPacked_FillsRowsByRealLengthNotByMask(t *testing.T) {
	// Ids 11 12 13 | 91 92 93 94 | 21 22 with the observation masked out: a
	// packer that trusts the mask's sum loses the second turn.
	seg := subjects.Segment{Parent: -1, Tokens: []int32{11, 12, 13, 91, 92, 93, 94, 21, 22}, Logprobs: []float32{-1, -2, -3, -4, -5},
		Versions: []subjects.VersionSpan{{Start: 0, End: 3, Version: 2}, {Start: 7, End: 9, Version: 3}},
		LossMask: []subjects.Span{{Start: 0, End: 3}, {Start: 7, End: 9}}}
	v := views(t, seg, seg)
	rows := []Row{{Segment: &v[0], Tokens: 9, Advantage: 1}, {Segment: &v[1], Tokens: 9, Advantage: -1}}
	cfg := Config{Layout: Packed, RowTokens: 20, Rows: 1}.WithDefaults()
	slot, f := fill(t, cfg, rows, Part{}, 0xaa)
	got := read(t, cfg, slot, f)
	if len(got) != 2 || len(got[0].cells) != 9 || len(got[1].cells) != 9 || a(f, "tokens").Shape[0] != 1 {
		t.Fatalf("%d segments in %v rows", len(got), f.Arrays)
	}
	if c := got[1].cells[8]; c.id != 22 || c.logprob != -5 || !c.trained || c.advantage != -1 {
		t.Fatalf("last cell is %+v", c)
	}
}

func a(f Filled, name string) Array { x, _ := arrays{filled: f}.find(name); return x }

func TestPacked_IsFirstFitDecreasing(t *testing.T) {
	w, err := NewWriter(Config{Layout: Packed, RowTokens: 10})
	if err != nil {
		t.Fatal(err)
	}
	rows := []Row{{Tokens: 3}, {Tokens: 6}, {Tokens: 4}, {Tokens: 7}, {Tokens: 3}}
	if err := w.pack(rows); err != nil {
		t.Fatal(err)
	}
	want := []home{{0, 7, 2, 3}, {1, 0, 1, 6}, {1, 6, 2, 4}, {0, 0, 1, 7}, {2, 0, 1, 3}}
	if !slices.Equal(w.homes, want) {
		t.Fatalf("homes %v, want %v", w.homes, want)
	}
}

func TestFill_OverflowPolicies(t *testing.T) {
	seg := subjects.Segment{Parent: -1, Tokens: []int32{1, 2, 3, 4, 5, 6}, Logprobs: []float32{-1, -2, -3, -4},
		Versions: []subjects.VersionSpan{{Start: 2, End: 6, Version: 1}}, LossMask: []subjects.Span{{Start: 2, End: 6}}}
	v := views(t, seg)
	rows := []Row{{Segment: &v[0], Tokens: 6, Advantage: 1}}
	for _, kind := range kinds {
		cfg := Config{Layout: kind, Buckets: []int{3}, RowTokens: 3, PromptTokens: 4, Rows: 1, Overflow: OverflowError}.WithDefaults()
		w, err := NewWriter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var tooLong *LengthError
		if _, err := w.Fill(make([]byte, cfg.SlotBytes()), rows, Part{}); !errors.As(err, &tooLong) {
			t.Fatalf("%s: %v, want a LengthError", kind, err)
		}
		for policy, trained := range map[Overflow]bool{OverflowMask: false, OverflowCut: true} {
			cfg.Overflow = policy
			slot, f := fill(t, cfg, rows, Part{}, 1)
			got := read(t, cfg, slot, f)
			if f.Overflowed != 1 || len(got) != 1 || got[0].cells[2].trained != trained || got[0].cells[2].logprob != -1 {
				t.Fatalf("%s, %s: %+v %+v", kind, policy, f, got)
			}
		}
	}
}

func TestPromptCompletion_PromptThatLostItsHeadIsMasked(t *testing.T) {
	seg := subjects.Segment{Parent: -1, Tokens: []int32{1, 2, 3, 4}, Logprobs: []float32{-1},
		Versions: []subjects.VersionSpan{{Start: 3, End: 4, Version: 1}}, LossMask: []subjects.Span{{Start: 3, End: 4}}}
	v := views(t, seg)
	cfg := Config{Layout: PromptCompletion, Buckets: []int{3}, PromptTokens: 2, Rows: 1, Overflow: OverflowCut}.WithDefaults()
	slot, f := fill(t, cfg, []Row{{Segment: &v[0], Tokens: 4}}, Part{}, 1)
	got := read(t, cfg, slot, f)[0].cells
	if len(got) != 3 || got[0].id != 2 || got[2].id != 4 || got[2].trained {
		t.Fatalf("%+v", got)
	}
}

func TestFill_MoreRowsThanASlotHoldsIsNamed(t *testing.T) {
	v := views(t, subjects.Segment{Parent: -1, Tokens: []int32{1}})
	rows := slices.Repeat([]Row{{Segment: &v[0], Tokens: 1}}, 5)
	cfg := Config{Buckets: []int{4}, Rows: 2, MaxRows: 4}
	w, err := NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var tooMany *RowsError
	if _, err := w.Fill(make([]byte, cfg.SlotBytes()), rows, Part{}); !errors.As(err, &tooMany) || tooMany.Rows != 6 {
		t.Fatalf("%v, want a RowsError for 6", err)
	}
}

func TestConfig_ValidateNamesTheField(t *testing.T) {
	for field, c := range map[string]Config{
		"layout":        {Layout: "ragged"},
		"overflow":      {Overflow: "drop"},
		"buckets":       {Buckets: []int{64, 64}},
		"row_tokens":    {RowTokens: -1},
		"prompt_tokens": {PromptTokens: -1},
		"rows":          {Rows: -2},
		"max_rows":      {Rows: 64, MaxRows: 32},
		"slots":         {Slots: 1},
		"pad_id":        {PadID: -1},
	} {
		var bad *FieldError
		if err := c.Validate(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}
