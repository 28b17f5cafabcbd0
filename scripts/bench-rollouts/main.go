// Command bench-rollouts measures the episode engine where it has nothing to
// wait for but the work itself: thousands of live episodes, environments with a
// heavy-tailed latency, and a simulated accelerator that takes 32 calls every
// 16 ms. It prints one JSON object a line: how busy the engine keeps the
// accelerator as a share of the best possible (an event simulation without any
// overhead), processor time a step, and peak memory.
//
// Everything of an episode is real but the model: template, tokenizer, token
// ledger, deadlines, trajectories. What it leaves out is HTTP and the bus.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// endOfTurn is <|im_end|> in the words tokenizer.
const endOfTurn = 2

func main() {
	w := work{}
	rounds := flag.Int("rounds", 3, "rounds to play")
	tokens := flag.Int("tokens", 8, "tokens of a completion")
	once := flag.Bool("json", false, "play one round and print its figures as one object, for scripts/bench")
	flag.Uint64Var(&w.seed, "seed", 1, "seed of the latency table")
	flag.IntVar(&w.live, "live", 4000, "episodes played at once")
	flag.IntVar(&w.episodes, "episodes", 8000, "episodes of a round")
	flag.IntVar(&w.steps, "steps", 6, "steps of an episode")
	flag.IntVar(&w.batch, "batch", 32, "calls of a pass")
	flag.DurationVar(&w.pass, "pass", 16*time.Millisecond, "time of a pass")
	flag.Parse()
	if err := bench(w, *rounds, *tokens, *once); err != nil {
		fmt.Fprintln(os.Stderr, "bench-rollouts:", err)
		os.Exit(1)
	}
}

// measured are the figures of one round.
type measured struct {
	Busy float64 `json:"busy_of_ideal"`
	CPU  float64 `json:"cpu_us_per_step"`
	RSS  float64 `json:"rss_mb"`
}

func bench(w work, rounds, tokens int, once bool) error {
	wall, passes := ideal(w)
	best := float64(passes) * w.pass.Seconds() / wall.Seconds()
	fmt.Fprintf(os.Stderr, "ideal: %.1f s, accelerator busy %.3f\n", wall.Seconds(), best)
	if once {
		m, err := round(w, tokens, best)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(m)
	}
	var all []measured
	for range rounds {
		m, err := round(w, tokens, best)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	for _, f := range []struct {
		name, unit string
		of         func(measured) float64
	}{
		{"engine_busy_of_ideal", "ratio", func(m measured) float64 { return m.Busy }},
		{"engine_cpu_per_step", "us", func(m measured) float64 { return m.CPU }},
		{"engine_rss", "MB", func(m measured) float64 { return m.RSS }},
	} {
		if err := report(f.name, f.unit, all, f.of); err != nil {
			return err
		}
	}
	return nil
}

func report(name, unit string, all []measured, of func(measured) float64) error {
	var values []float64
	for _, m := range all {
		values = append(values, of(m))
	}
	slices.Sort(values)
	return json.NewEncoder(os.Stdout).Encode(struct {
		Name   string  `json:"name"`
		Median float64 `json:"median"`
		Min    float64 `json:"min"`
		Max    float64 `json:"max"`
		Unit   string  `json:"unit"`
		N      int     `json:"n"`
	}{name, values[len(values)/2], values[0], values[len(values)-1], unit, len(values)})
}

// round plays the work once.
func round(w work, tokens int, best float64) (measured, error) {
	d := newDevice(w, tokens)
	player, err := newPlayer(w, d)
	if err != nil {
		return measured{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var accelerator sync.WaitGroup
	accelerator.Go(func() { d.run(ctx) })
	cpu, begun := processor(), time.Now()
	err = playAll(ctx, w, player)
	wall := time.Since(begun)
	used := processor() - cpu
	cancel()
	accelerator.Wait()
	if err != nil {
		return measured{}, err
	}
	busy := float64(d.count()) * w.pass.Seconds() / wall.Seconds()
	steps := float64(w.episodes * w.steps)
	m := measured{Busy: busy / best, CPU: used.Seconds() / steps * 1e6, RSS: peakMemory()}
	fmt.Fprintf(os.Stderr, "round: %.1f s, accelerator busy %.3f (%.1f%% of ideal), %.1f us a step, peak %.0f MB\n",
		wall.Seconds(), busy, 100*m.Busy, m.CPU, m.RSS)
	return m, nil
}

func newPlayer(w work, d *device) (*producers.Player, error) {
	words, err := tokenizer.NewWords("up: ", "down: ", "left: ", "right: ", "ice, ", "wall, ", "hole, ", "goal at ", " down, ", " right")
	if err != nil {
		return nil, err
	}
	template, err := tokenizer.NewChatML(words)
	if err != nil {
		return nil, err
	}
	agent, err := agents.New(agents.Conversation, "Reach the goal.")
	if err != nil {
		return nil, err
	}
	return producers.New(producers.Config{Producer: "bench", Tokenizer: words, Template: template, Policy: d, Log: zerolog.Nop(),
		Environments: map[string]producers.Setup{"sleeper": {Agent: agent, New: func() (envs.Environment, error) { return &sleeper{work: w}, nil }}}})
}

// playAll keeps the pool of live episodes full until none is left to start.
func playAll(ctx context.Context, w work, player *producers.Player) error {
	episodes := make(chan int)
	failed := make(chan string, w.live)
	var slots sync.WaitGroup
	for range w.live {
		slots.Go(func() {
			for i := range episodes {
				t := player.Play(ctx, &subjects.Task{Kind: subjects.Train, Group: "bench", Slot: subjects.Slot(i), Environment: "sleeper",
					Seed: int64(i), Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 64}})
				if t.Status != subjects.Succeeded || len(t.Turns) != w.steps {
					select {
					case failed <- t.Reason:
					default:
					}
				}
			}
		})
	}
	for i := range w.episodes {
		episodes <- i
	}
	close(episodes)
	slots.Wait()
	select {
	case reason := <-failed:
		return fmt.Errorf("an episode did not succeed: %s", reason)
	default:
		return nil
	}
}

// processor is the time this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMemory is the largest resident size so far, in MB of a million bytes.
func peakMemory() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Maxrss) * 1024 / 1e6
}
