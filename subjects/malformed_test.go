package subjects

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// put is one field of a hand-made body.
type put struct {
	key   string
	value []byte
}

func text(s string) []byte             { return appendText(nil, s) }
func integer(v int64) []byte           { return appendInt(nil, v) }
func number(v float64) []byte          { return appendFloat(nil, v) }
func binary32(v ...int32) []byte       { return appendBin(nil, appendArray(nil, v)) }
func binaryFloats(v ...float32) []byte { return appendBin(nil, appendArray(nil, v)) }
func list(values ...[]byte) []byte {
	return append(appendArrayLen(nil, len(values)), bytes.Join(values, nil)...)
}
func repeat(n int, value []byte) []byte {
	return append(appendArrayLen(nil, n), bytes.Repeat(value, n)...)
}
func with(base []put, changes ...put) []put { return append(without(base, changes...), changes...) }

func object(fields ...put) []byte {
	b := appendMapLen(nil, len(fields))
	for _, f := range fields {
		b = append(appendText(b, f.key), f.value...)
	}
	return b
}

func without(base []put, drop ...put) []put {
	var kept []put
	for _, f := range base {
		if !contains(drop, f.key) {
			kept = append(kept, f)
		}
	}
	return kept
}

func contains(fields []put, key string) bool {
	for _, f := range fields {
		if f.key == key {
			return true
		}
	}
	return false
}

// segment is four tokens, of which 2 and 3 were sampled.
func segmentFields() []put {
	return []put{{"ids", binary32(1, 2, 3, 4)}, {"lp", binaryFloats(-1, -2)}, {"ver", binary32(2, 4, 9)}, {"mask", binary32(2, 4)}}
}

func turnFields() []put {
	return []put{{"seg", binary32(0)}, {"p", binary32(0, 2)}, {"c", binary32(2, 4)}, {"t", appendBin(nil, make([]byte, 24))},
		{"hit", binary32(0)}, {"r", appendBin(nil, make([]byte, 8))}, {"fin", list(text("stop"))}}
}

// bodyFields is the least a body that is trained on has.
func bodyFields() []put {
	return []put{{"v", integer(1)}, {"k", text("train")}, {"g", text("t1")}, {"s", integer(0)}, {"a", integer(0)},
		{"env", text("e")}, {"st", text("succeeded")}, {"r", number(1)}, {"seg", list(object(segmentFields()...))}}
}

// inSegment is a body whose only segment has these fields changed.
func inSegment(changes ...put) []byte {
	return inBody(put{"seg", list(object(with(segmentFields(), changes...)...))})
}
func inTurns(changes ...put) []byte {
	return inBody(put{"turns", object(with(turnFields(), changes...)...)})
}
func inBody(changes ...put) []byte { return object(with(bodyFields(), changes...)...) }

func inspect(b []byte) error {
	v, err := ViewBody(b)
	if err != nil {
		return err
	}
	return v.Check(100)
}

func TestInspect_AcceptsTheHandMadeBody(t *testing.T) {
	for _, b := range [][]byte{
		inBody(), inSegment(), inTurns(),
		inBody(put{"later", list(text("a field"), object(put{"of", integer(7)}), []byte{0xc0})}),
		inBody(put{"r", integer(1)}, put{"s", []byte{0xd3, 0, 0, 0, 0, 0, 0, 0, 5}}), // other encodings of the same numbers
		inSegment(put{"mask", binary32()}),
		inSegment(put{"mask", binary32(2, 3, 3, 4)}, put{"ver", binary32(2, 3, 9, 3, 4, 10)}),
		inSegment(put{"mask", binary32(2, 4)}, put{"ver", binary32(2, 3, 9, 3, 4, 10)}), // a mask span over two versions
	} {
		if err := inspect(b); err != nil {
			t.Errorf("%x: %v", b, err)
		}
	}
}

func TestInspect_RefusesMalformedBodies(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, c := range map[string]struct {
		body []byte
		want string // a part of the error
	}{
		"empty":                     {nil, "cut short"},
		"not a map":                 {list(), "an array where a map"},
		"nil":                       {[]byte{0xc0}, "nil where a map"},
		"trailing bytes":            {append(inBody(), 0), "1 bytes after"},
		"cut short":                 {inBody()[:40], "bytes left"},
		"extension type":            {inBody(put{"x", []byte{0xd4, 1, 1}}), "0xd4"},
		"never used byte":           {inBody(put{"x", []byte{0xc1}}), "0xc1"},
		"array bomb":                {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1}, "length"},
		"map bomb":                  {[]byte{0xdf, 0xff, 0xff, 0xff, 0xff, 1}, "length"},
		"binary bomb":               {[]byte{0xc6, 0xff, 0xff, 0xff, 0xff, 1}, "length"},
		"string bomb":               {[]byte{0xdb, 0xff, 0xff, 0xff, 0xff, 1}, "length"},
		"nested bomb":               {bytes.Repeat([]byte{0x91}, 5<<20), "nested"},
		"nested maps":               {inBody(put{"x", append(bytes.Repeat([]byte{0x81, 0xa0}, 40), 0xc0)}), "nested"},
		"many fields":               {object(append(bodyFields(), many(80)...)...), "fields"},
		"duplicate field":           {object(append(bodyFields(), put{"g", text("t2")})...), `"g" comes twice`},
		"duplicate unknown field":   {object(append(bodyFields(), put{"x", integer(1)}, put{"x", integer(2)})...), `"x" comes twice`},
		"key that is no text":       {append([]byte{0x81, 1}, 1), "an integer where a string"},
		"no version":                {object(without(bodyFields(), put{"v", nil})...), `"v"`},
		"version zero":              {inBody(put{"v", integer(0)}), `"v"`},
		"version of tomorrow":       {inBody(put{"v", integer(SchemaVersion + 1)}), `"v"`},
		"version as text":           {inBody(put{"v", text("1")}), `"v"`},
		"unknown kind":              {inBody(put{"k", text("practice")}), "kind"},
		"no reward":                 {object(without(bodyFields(), put{"r", nil})...), "a body has"},
		"no segments":               {object(without(bodyFields(), put{"seg", nil})...), "a body has"},
		"no kind":                   {object(without(bodyFields(), put{"k", nil})...), "a body has"},
		"group with a space":        {inBody(put{"g", text("t 1")}), "group"},
		"group as number":           {inBody(put{"g", integer(1)}), `"g"`},
		"group not UTF-8":           {inBody(put{"g", []byte{0xa1, 0xff}}), `"g"`},
		"no environment":            {inBody(put{"env", text("")}), "environment"},
		"negative slot":             {inBody(put{"s", integer(-1)}), `"s"`},
		"huge slot":                 {inBody(put{"s", integer(1 << 40)}), `"s"`},
		"slot beyond int64":         {inBody(put{"s", appendUint(nil, math.MaxUint64)}), `"s"`},
		"slot as float":             {inBody(put{"s", number(1)}), `"s"`},
		"negative attempt":          {inBody(put{"a", integer(-3)}), `"a"`},
		"round of a train task":     {inBody(put{"rd", integer(3)}), "round"},
		"unknown status":            {inBody(put{"st", text("fine")}), "status"},
		"reward NaN":                {inBody(put{"r", number(math.NaN())}), "reward"},
		"reward infinite":           {inBody(put{"r", number(math.Inf(1))}), "reward"},
		"reward beyond float32":     {inBody(put{"r", number(1e39)}), "reward"},
		"reward as text":            {inBody(put{"r", text("1")}), `"r"`},
		"component NaN":             {inBody(put{"rc", object(put{"a", number(math.NaN())})}), "component"},
		"component twice":           {inBody(put{"rc", object(put{"a", number(1)}, put{"a", number(2)})}), `"rc"`},
		"component as text":         {inBody(put{"rc", object(put{"a", text("x")})}), `"rc"`},
		"too many components":       {inBody(put{"rc", object(many(300)...)}), `"rc"`},
		"task as text":              {inBody(put{"task", text("{}")}), `"task"`},
		"task that is not JSON":     {inBody(put{"task", appendBin(nil, []byte("{"))}), "task"},
		"temperature NaN":           {inBody(put{"sp", object(put{"temperature", number(math.NaN())})}), "temperature"},
		"temperature negative":      {inBody(put{"sp", object(put{"temperature", number(-1)})}), "temperature"},
		"sampling seed negative":    {inBody(put{"sp", object(put{"seed", integer(-1)})}), `"seed"`},
		"one time":                  {inBody(put{"time", list(integer(1))}), `"time"`},
		"three times":               {inBody(put{"time", list(integer(1), integer(2), integer(3))}), `"time"`},
		"trained without a segment": {inBody(put{"seg", list()}), "without a segment"},
		"segments as a map":         {inBody(put{"seg", object()}), `"seg"`},
		"too many segments":         {inBody(put{"seg", repeat(maxSegments+1, object())}), `"seg"`},
		"segment nil":               {inBody(put{"seg", list([]byte{0xc0})}), `"seg"`},
		"ids as array":              {inSegment(put{"ids", list(integer(1))}), `"ids"`},
		"ids of odd length":         {inSegment(put{"ids", appendBin(nil, make([]byte, 5))}), `"ids"`},
		"id negative":               {inSegment(put{"ids", binary32(1, 2, -1, 4)}), "token id -1 at 2"},
		"id at the vocabulary":      {inSegment(put{"ids", binary32(1, 2, 3, 100)}), "token id 100 at 3"},
		"logprob NaN":               {inSegment(put{"lp", binaryFloats(-1, nan)}), "logprob"},
		"logprob infinite":          {inSegment(put{"lp", binaryFloats(inf, -1)}), "logprob"},
		"logprob positive":          {inSegment(put{"lp", binaryFloats(-1, 0.5)}), "logprob"},
		"logprob missing":           {inSegment(put{"lp", binaryFloats(-1)}), "1 logprobs for 2"},
		"logprob too many":          {inSegment(put{"lp", binaryFloats(-1, -1, -1)}), "3 logprobs for 2"},
		"logprobs of float64":       {inSegment(put{"lp", appendBin(nil, make([]byte, 16))}), "4 logprobs for 2"},
		"versions ragged":           {inSegment(put{"ver", binary32(2, 4)}), `"ver"`},
		"version span past the end": {inSegment(put{"ver", binary32(3, 5, 9)}), "version span 0"},
		"version span empty":        {inSegment(put{"ver", binary32(2, 2, 9)}), "version span 0"},
		"version span reversed":     {inSegment(put{"ver", binary32(4, 2, 9)}), "version span 0"},
		"version spans overlap":     {inSegment(put{"ver", binary32(1, 3, 9, 2, 4, 9)}), "version span 1"},
		"version negative":          {inSegment(put{"ver", binary32(2, 4, -1)}), "version span 0"},
		"span start negative":       {inSegment(put{"ver", binary32(-2, 4, 1)}), "version span 0"},
		"span of 32-bit extremes":   {inSegment(put{"ver", binary32(math.MinInt32, math.MaxInt32, 1)}), "version span 0"},
		"mask ragged":               {inSegment(put{"mask", binary32(2, 4, 5)}), `"mask"`},
		"mask before the sample":    {inSegment(put{"mask", binary32(1, 3)}), "covers token 1"},
		"mask past the sample":      {inSegment(put{"mask", binary32(2, 5)}), "covers token 4"},
		"mask over a gap":           {inSegment(put{"ver", binary32(0, 1, 9, 2, 3, 9)}, put{"mask", binary32(0, 3)}), "covers token 1"},
		"mask unordered":            {inSegment(put{"mask", binary32(3, 4, 2, 3)}), "mask span 1"},
		"mask empty span":           {inSegment(put{"mask", binary32(3, 3)}), "mask span 0"},
		"parent of itself":          {inSegment(put{"par", integer(0)}), "forks"},
		"parent out of range":       {inSegment(put{"par", integer(-2)}), `"par"`},
		"shares too much":           {inSegment(put{"sh", integer(5)}), "forks"},
		"turns as array":            {inBody(put{"turns", list()}), `"turns"`},
		"turn columns unequal":      {inTurns(put{"hit", binary32(0, 0)}), `"turns"`},
		"turns without a column":    {inBody(put{"turns", object(without(turnFields(), put{"fin", nil})...)}), `"turns"`},
		"turn in no segment":        {inTurns(put{"seg", binary32(1)}), "turn 0"},
		"turn segment negative":     {inTurns(put{"seg", binary32(-1)}), "turn 0"},
		"turn past its segment":     {inTurns(put{"c", binary32(2, 5)}), "turn 0"},
		"turn span reversed":        {inTurns(put{"p", binary32(2, 1)}), "turn 0"},
		"turn reward NaN":           {inTurns(put{"r", appendBin(nil, le64(nil, int64(math.Float64bits(math.NaN()))))}), "turn 0"},
		"turn cached negative":      {inTurns(put{"hit", binary32(-1)}), "turn 0"},
		"finish as number":          {inTurns(put{"fin", list(integer(1))}), `"fin"`},
		"finish not UTF-8":          {inTurns(put{"fin", list([]byte{0xa1, 0xff})}), `"fin"`},
		"too many turns":            {inTurns(put{"fin", repeat(maxTurns+1, text(""))}), `"fin"`},
		"messages as map":           {inBody(put{"msgs", object()}), `"msgs"`},
		"too many messages":         {inBody(put{"msgs", repeat(maxMessages+1, object())}), `"msgs"`},
		"message role not UTF-8":    {inBody(put{"msgs", list(object(put{"role", []byte{0xa1, 0xff}}))}), `"role"`},
		"message content binary":    {inBody(put{"msgs", list(object(put{"content", appendBin(nil, []byte("x"))}))}), `"content"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := inspect(c.body)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrMalformed that mentions %q", err, c.want)
			}
			if tr, err := DecodeTrajectory(c.body); err == nil {
				if err := tr.Check(100); !errors.Is(err, ErrMalformed) {
					t.Errorf("decoded and checked: %v", err)
				}
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func many(n int) (fields []put) {
	for i := range n {
		fields = append(fields, put{fmt.Sprint("x", i), integer(1)})
	}
	return fields
}

func TestDecodeMessage_RefusesMalformedMessages(t *testing.T) {
	for name, c := range map[string]struct {
		message []byte
		into    any
		want    string
	}{
		"no version":          {object(put{"g", text("t1")}), &Task{}, `"v"`},
		"version of tomorrow": {object(put{"v", integer(2)}), &Task{}, `"v"`},
		"trailing bytes":      {append(object(put{"v", integer(1)}), 0xc0), &Task{}, "after"},
		"slot as text":        {object(put{"v", integer(1)}, put{"s", text("0")}), &Task{}, `"s"`},
		"slot as nil":         {object(put{"v", integer(1)}, put{"s", []byte{0xc0}}), &Task{}, `"s"`},
		"twice":               {object(put{"v", integer(1)}, put{"s", integer(0)}, put{"s", integer(1)}), &Task{}, "twice"},
		"data as text":        {object(put{"v", integer(1)}, put{"data", text("{}")}), &Task{}, `"data"`},
		"beyond int64":        {object(put{"v", integer(1)}, put{"seed", appendUint(nil, math.MaxUint64)}), &Task{}, `"seed"`},
		"negative sequence":   {object(put{"v", integer(1)}, put{"low", integer(-1)}), &Entry{}, `"low"`},
		"checksum of 33 bits": {object(put{"v", integer(1)}, put{"ver", list(object(put{"m", list(object(put{"x", integer(1 << 32)}))}))}), &Entry{}, `"x"`},
		"verdict nil":         {object(put{"v", integer(1)}, put{"ver", list([]byte{0xc0})}), &Entry{}, `"ver"`},
		"flag as number":      {object(put{"v", integer(1)}, put{"ver", list(object(put{"m", list(object(put{"mk", integer(1)}))}))}), &Entry{}, `"mk"`},
		"metric twice":        {object(put{"v", integer(1)}, put{"m", object(put{"a", integer(1)}, put{"a", integer(1)})}), &Gauges{}, `"m"`},
		"metric as text":      {object(put{"v", integer(1)}, put{"m", object(put{"a", text("")})}), &CommitEvent{}, `"m"`},
		"not UTF-8":           {object(put{"v", integer(1)}, put{"dir", []byte{0xa1, 0xff}}), &VersionEvent{}, `"dir"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := DecodeMessage(c.message, c.into); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrMalformed that mentions %q", err, c.want)
			}
		})
	}
}

func TestDecodeMessage_HostileArraysTakeMemoryInProportion(t *testing.T) {
	const n = 4 << 20
	m := object(put{"v", integer(1)}, put{"ver", repeat(n, object())}) // one byte a verdict
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := DecodeMessage(m, &Entry{})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 2*expansion*n {
		t.Errorf("allocated %d MB for a message of %d MB", got>>20, n>>20)
	}
}

func TestEncode_RefusesNumbersWithoutRoom(t *testing.T) {
	big := plain()
	big.Segments[0].Versions[0].Version = math.MaxInt32 + 1
	far := plain()
	far.Turns[0].Segment = math.MaxInt32 + 1
	for _, tr := range []*Trajectory{big, far} {
		if err := EncodeTrajectory(&bytes.Buffer{}, tr); !errors.Is(err, ErrMalformed) {
			t.Errorf("error %v", err)
		}
	}
}

func TestEncode_ReplacesTextThatIsNotUTF8(t *testing.T) {
	tr := plain()
	tr.Messages[1].Content = "cut \xf0\x9f here"
	tr.Reason = "\xff"
	got, err := DecodeTrajectory(encoded(t, tr))
	if err != nil {
		t.Fatal(err)
	}
	if got.Messages[1].Content != "cut \ufffd here" || got.Reason != "\ufffd" {
		t.Errorf("content %q reason %q", got.Messages[1].Content, got.Reason)
	}
	b, err := EncodeMessage(&Entry{End: "\xff"})
	if err != nil {
		t.Fatal(err)
	}
	var e Entry
	if err := DecodeMessage(b, &e); err != nil || e.End != "\ufffd" {
		t.Errorf("end %q, error %v", e.End, err)
	}
}

func TestParseIndex_RefusesMalformedEntries(t *testing.T) {
	good := "1 train t17 3 1 0 succeeded 0.75 1 10 10 4 11 12 0 frozenlake 0 619 519be5a4"
	if _, err := ParseIndex(good + " later fields"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"1 train", "2 train", "version"}, {"1 train", "x train", "version"}, {"train", "exam", "kind"},
		{"t17", "t.17", "group"}, {" 3 1 0", " -3 1 0", "slot"}, {" 3 1 0", " 99999 1 0", "slot"},
		{"succeeded", "won", "status"}, {"0.75", "NaN", "reward"}, {"0.75", "+Inf", "reward"}, {"0.75", "1e40", "reward"},
		{"0.75 1 10", "0.75 5000 10", "segments"}, {"0.75 1 10 10", "0.75 1 99999999 10", "tokens"},
		{"10 10 4", "10 11 4", "longest"}, {"10 10 4", "10 10 11", "trainable"}, {"11 12", "12 11", "versions"},
		{"11 12", "-2 12", "min version"}, {"12 0 frozen", "12 2 frozen", "greedy"}, {"frozenlake", "frozen*", "environment"},
		{" 0 619", " -1 619", "offset"}, {"619 ", "x ", "length"}, {"519be5a4", "519be5a4f", "checksum"}, {" 519be5a4", "", "checksum"},
		{"0.75 1 10 10 4", "0.75 0 0 0 0", "segment"},
	} {
		_, err := ParseIndex(strings.Replace(good, c.old, c.new, 1))
		if !errors.Is(err, ErrIndex) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s -> %s: error %v, want ErrIndex that mentions %q", c.old, c.new, err, c.want)
		}
	}
}
