package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/envs/frozenlake"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/producers/tokenizer"
)

// serveEngine is an engine process without a model: SGLang's API, weights from
// disk with their checksum, and a random walk for a policy.
func serveEngine(ctx context.Context, j job) error {
	tok, err := tokenizer.NewWords(builtin.Specs()[frozenlake.Name].Words...)
	if err != nil {
		return err
	}
	var moves [][]int32
	for _, word := range []string{"up", "down", "left", "right"} {
		moves = append(moves, tok.Encode(word))
	}
	engine := sglangtest.New("")
	engine.Sample = func(q sglangtest.Request) []int32 {
		time.Sleep(time.Duration(j.LatencyMS) * time.Millisecond)
		draw := rand.New(rand.NewPCG(q.Sampling.Seed, uint64(len(q.InputIDs))))
		return moves[draw.IntN(len(moves))]
	}
	s := &http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", j.Port), Handler: engine.Handler, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errStopped
}
