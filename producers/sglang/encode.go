package sglang

import (
	"strconv"

	"github.com/headrace/headrace/producers"
)

// encode appends the JSON of a /generate request to b. Fields that would only
// repeat a default of the engine are left out. logprob_start_len is too: set,
// it switches SGLang's prefix cache off.
func encode(b []byte, rid string, r producers.Request) []byte {
	b = append(b, `{"rid":"`...)
	b = append(b, rid...)
	b = append(b, `","input_ids":`...)
	b = appendIDs(b, r.IDs)
	b = append(b, `,"return_logprob":true,"sampling_params":{"temperature":`...)
	b = strconv.AppendFloat(b, r.Sampling.Temperature, 'g', -1, 64)
	if r.Sampling.TopP > 0 && r.Sampling.TopP < 1 {
		b = append(b, `,"top_p":`...)
		b = strconv.AppendFloat(b, r.Sampling.TopP, 'g', -1, 64)
	}
	if r.Sampling.TopK > 0 {
		b = append(b, `,"top_k":`...)
		b = strconv.AppendInt(b, int64(r.Sampling.TopK), 10)
	}
	b = append(b, `,"max_new_tokens":`...)
	b = strconv.AppendInt(b, int64(r.Sampling.MaxNewTokens), 10)
	b = append(b, `,"sampling_seed":`...)
	b = strconv.AppendUint(b, r.Sampling.Seed, 10)
	if len(r.StopIDs) > 0 {
		b = append(b, `,"stop_token_ids":`...)
		b = appendIDs(b, r.StopIDs)
	}
	return append(b, `}}`...)
}

func appendIDs(b []byte, ids []int32) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}
