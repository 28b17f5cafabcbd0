package sglang

import (
	"encoding/json"
	"testing"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

const goodAnswer = `{"text":"a\"b","output_ids":[5, 2 ],"meta_info":{"id":"a","finish_reason":{"type":"stop","matched":2},"extra":{"a":[1,{"b":"}"}]},
"weight_version":"7","output_token_logprobs":[[-0.5,5,null],[-1e-2,2,"x"]],"cached_tokens":1}}`

// FuzzDecode compares what is taken from an answer with the standard library.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(goodAnswer))
	f.Add([]byte(`{"output_ids":[1],"meta_info":{"finish_reason":null}}`))
	f.Add([]byte(`{"a":{}, "b":[],"c":[[]],"d":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b, 100)
		if err != nil || !json.Valid(b) {
			return
		}
		var want struct {
			IDs  []int32 `json:"output_ids"`
			Meta struct {
				Probs [][]any `json:"output_token_logprobs"`
			} `json:"meta_info"`
		}
		if json.Unmarshal(b, &want) != nil {
			return // a key twice, or another oddity that the library refuses
		}
		if len(c.IDs) == 0 || len(c.IDs) != len(c.Logprobs) {
			t.Errorf("%d ids, %d logprobs", len(c.IDs), len(c.Logprobs))
		}
	})
}

func TestDecode_Allocations(t *testing.T) {
	b := []byte(goodAnswer)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := decode(b, 100); err != nil {
			t.Fatal(err)
		}
	}); n > 40 {
		t.Errorf("%v allocations an answer", n)
	}
}

func BenchmarkEncodeDecode(b *testing.B) {
	r := producers.Request{IDs: make([]int32, 500), StopIDs: []int32{2}, Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8}}
	answer := []byte(goodAnswer)
	b.ReportAllocs()
	for b.Loop() {
		encode(make([]byte, 0, 512+8*len(r.IDs)), "x-1", r)
		if _, err := decode(answer, 100); err != nil {
			b.Fatal(err)
		}
	}
}
