package producers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/subjects"
)

// Demonstration is one segment of an episode that an environment played by
// itself, as a supervised warm start reads it.
type Demonstration struct {
	// IDs are the tokens, [T].
	IDs []int32 `json:"ids"`
	// Mask are the spans of the actions, half-open; all else is context.
	Mask [][2]int32 `json:"mask"`
	// Reward is the episode's.
	Reward float64 `json:"reward"`
}

// DemoConfig says what to demonstrate.
type DemoConfig struct {
	// Environment is the name in Config.Environments.
	Environment string
	// Episodes to play, on the environment seeds FirstSeed, FirstSeed+1, ...
	Episodes  int
	FirstSeed int64
	// Skill is the probability of the best action instead of a random one.
	Skill float64
	// Seed decides every draw: equal configurations give equal bytes.
	Seed int64
}

// Demonstrate plays episodes through the real template and token ledger, with
// the environment's own player in place of a model, and writes one JSON line
// per segment. An environment that cannot play itself is an error, as is an
// episode that fails; one over the token budget is cut there.
func (p *Player) Demonstrate(ctx context.Context, w io.Writer, cfg DemoConfig) error {
	out, actions := bufio.NewWriterSize(w, 1<<16), 0
	enc := json.NewEncoder(out)
	for i := range cfg.Episodes {
		rng := envs.NewRand(cfg.Seed, uint64(i))
		task := &subjects.Task{Kind: subjects.Train, Group: "demo", Slot: subjects.Slot(i), Environment: cfg.Environment,
			Seed: cfg.FirstSeed + int64(i), Sampling: subjects.Sampling{Seed: rng.Uint64()}}
		t := p.play(ctx, task, func(e *episode) Policy { return &demonstrator{episode: e, rng: rng, skill: cfg.Skill} })
		if !t.Status.Trained() {
			return fmt.Errorf("demonstrate %s, seed %d: %s", cfg.Environment, task.Seed, t.Reason)
		}
		for _, s := range t.Segments {
			d := Demonstration{IDs: s.Tokens, Mask: [][2]int32{}, Reward: t.Reward}
			actions += len(s.LossMask)
			for _, m := range s.LossMask {
				d.Mask = append(d.Mask, [2]int32{m.Start, m.End})
			}
			if err := enc.Encode(d); err != nil {
				return fmt.Errorf("write demonstration: %w", err)
			}
		}
	}
	if actions == 0 && cfg.Episodes > 0 {
		return fmt.Errorf("demonstrate %s: no episode has an action: the first prompt alone fills the budget of %d tokens", cfg.Environment, p.cfg.Limits.Tokens)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write demonstrations: %w", err)
	}
	return nil
}

// demonstrator is a Policy that asks the episode's environment what to do. Its
// tokens get logprob 0 and version 0, which no demonstration keeps.
type demonstrator struct {
	episode *episode
	rng     *rand.Rand
	skill   float64
}

var errNoDemonstrator = errors.New("the environment cannot play itself: it has no Demonstrator")

func (d *demonstrator) Generate(_ context.Context, r Request) (Completion, error) {
	player, ok := d.episode.env.(envs.Demonstrator)
	if !ok {
		return Completion{}, errNoDemonstrator
	}
	action := player.Demonstrate(d.rng, d.skill)
	ids := append(d.episode.cfg.Tokenizer.Encode(action.Text), d.episode.stops[0])
	c := Completion{Finish: FinishStop, Engine: "demonstrator"}
	if len(ids) > r.Sampling.MaxNewTokens {
		ids, c.Finish = ids[:r.Sampling.MaxNewTokens], FinishLength
	}
	c.IDs, c.Logprobs = ids, make([]float32, len(ids))
	c.Versions = []subjects.VersionSpan{{End: int32(len(ids))}}
	return c, nil
}
