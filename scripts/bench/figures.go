package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// value is what one round gives for one figure. cpu is CPU seconds per million
// tokens, 0 where that has no meaning.
type value struct{ v, cpu float64 }

// figure is a measurement that gives the values of one or more names.
type figure struct {
	names   []string
	units   []string
	measure func(ctx context.Context, o *options) ([]value, error)
}

// figures in the order in which a round takes them: a line of Headrace, Redis at
// the same durability, the limit.
func figures() []figure {
	var all []figure
	one := func(name, unit string, f func(context.Context, *options) ([]value, error)) {
		all = append(all, figure{[]string{name}, []string{unit}, f})
	}
	for _, length := range []int{512, 2048} {
		one(fmt.Sprintf("e2e_%d_sync1s", length), tokensPerSecond, throughput((*options).headrace, length, "1s", 1))
		one(fmt.Sprintf("redis_%d_everysec", length), tokensPerSecond, throughput((*options).redis, length, "everysec", 1))
		one(fmt.Sprintf("redis_%d_everysec_pipelined", length), tokensPerSecond, throughput(redisPipelined, length, "everysec", 1))
		one(fmt.Sprintf("jetstream_%d_limit", length), tokensPerSecond, throughput((*options).limit, length, "1s", 1))
		one(fmt.Sprintf("e2e_%d_always", length), tokensPerSecond, throughput((*options).headrace, length, "always", 1))
		one(fmt.Sprintf("redis_%d_always", length), tokensPerSecond, throughput((*options).redis, length, "always", .25))
		one(fmt.Sprintf("redis_%d_always_pipelined", length), tokensPerSecond, throughput(redisPipelined, length, "always", 1))
	}
	all = append(all,
		figure{[]string{"paced_p50", "paced_p99"}, []string{"ms", "ms"}, paced((*options).headrace, "1s")},
		figure{[]string{"redis_paced_p50", "redis_paced_p99"}, []string{"ms", "ms"}, paced(redisGroups, "everysec")},
		figure{[]string{"grouper", "grouper_2048"}, []string{"trajectories/s", "trajectories/s"}, grouperFigure},
		figure{[]string{"grouper_core", "grouper_bytes_per_open_group"}, []string{"trajectories/s", "bytes"}, coreFigure},
		figure{[]string{"telemetry_overhead", "telemetry_overhead_cpu"}, []string{"%", "%"}, telemetryOverhead(2048, 1)},
		figure{[]string{"telemetry_overhead_512", "telemetry_overhead_512_cpu"}, []string{"%", "%"}, telemetryOverhead(512, 2)},
		figure{[]string{"watchers_rate", "watchers_wait", "watchers_wait_without"}, []string{"ratio", "ms", "ms"}, watchersFigure},
		figure{[]string{"handoff_27mb"}, []string{"ms"}, handoff},
		figure{[]string{"engine_busy_of_ideal", "engine_cpu_per_step", "engine_rss"}, []string{"fraction", "us", "MB"}, engine},
	)
	return all
}

const tokensPerSecond = "tokens/s"

func names() (all []string) {
	for _, f := range figures() {
		all = append(all, f.names...)
	}
	return all
}

func known(name string) bool { return slices.Contains(names(), name) }

func (o *options) wants(f figure) bool {
	return len(o.only) == 0 || slices.ContainsFunc(f.names, func(n string) bool { return o.only[n] })
}

// groups is the work of a throughput round: 40 million tokens at 512, 80 at 2048.
func (o *options) groups(length int, volume float64) int {
	tokens := 40e6
	if length > 1024 {
		tokens = 80e6
	}
	batches := max(4, int(tokens*o.volume*volume)/(length*groupSize*8))
	return batches * 8
}

func (o *options) job(length, groups int, sync string) job {
	return job{Length: length, Groups: groups, GroupsPerBatch: 8, Producers: producers, Live: o.live, Ahead: o.ahead, Sync: sync}
}

type lineFunc func(*options, context.Context, job) (outcome, error)

// throughput is a line at full throttle, on a part of the work for lines that
// would take minutes.
func throughput(line lineFunc, length int, sync string, volume float64) func(context.Context, *options) ([]value, error) {
	return func(ctx context.Context, o *options) ([]value, error) {
		x, err := line(o, ctx, o.job(length, o.groups(length, volume), sync))
		if err != nil {
			return nil, err
		}
		o.remark("%.1f Mtok in %.2f s; CPU s: %s; %d messages", x.job.tokens()/1e6, x.wall.Seconds(), x.parts, x.bundles)
		return []value{{x.rate(), x.cpuPerMtok()}}, nil
	}
}

// redisPipelined is Redis at its best: as many trajectories in a pipeline as a
// bundle of ours holds at 512 tokens (deeper did not help), and a file that is
// never rewritten.
func redisPipelined(o *options, ctx context.Context, j job) (outcome, error) {
	j.Pipeline = 64
	return o.redis(ctx, j)
}

// redisGroups is Redis with a group in a pipeline.
func redisGroups(o *options, ctx context.Context, j job) (outcome, error) {
	j.Pipeline = groupSize
	return o.redis(ctx, j)
}

// paced is the latency from the last trajectory of a batch being sent to the
// arrays, 8 groups a second; median and 99th percentile over the batches.
func paced(line lineFunc, sync string) func(context.Context, *options) ([]value, error) {
	return func(ctx context.Context, o *options) ([]value, error) {
		j := o.job(512, 8*o.paced, sync)
		j.Pace, j.Producers = 8, 1
		x, err := line(o, ctx, j)
		if err != nil {
			return nil, err
		}
		if len(x.lasts) != len(x.taken.Times) {
			return nil, fmt.Errorf("%d batches sent, %d taken", len(x.lasts), len(x.taken.Times))
		}
		var ms []float64
		for i, t := range x.taken.Times {
			ms = append(ms, float64(t-x.lasts[i])/1e6)
		}
		return []value{{v: percentile(ms, .5)}, {v: percentile(ms, .99)}}, nil
	}
}

// handoff is from asking for a batch that lies ready to its numpy arrays: three
// of [1024, 2304] with four bytes an element, and the mask.
func handoff(ctx context.Context, o *options) ([]value, error) {
	const batches, perBatch = 8, 128
	j := job{Length: 2304, Groups: batches * perBatch, GroupsPerBatch: perBatch, Producers: 2, Live: o.live, Ahead: o.ahead, Sync: "1s", Versions: true, Settle: 1}
	x, err := o.headrace(ctx, j)
	if err != nil {
		return nil, err
	}
	o.remark("and %.1f ms to read the arrays once", 1e3*percentile(x.taken.Touched, .5))
	return []value{{v: 1e3 * percentile(x.taken.Took, .5)}}, nil
}

// grouperFigure is the grouper's service on a full stream, of trajectories of two
// lengths.
func grouperFigure(ctx context.Context, o *options) ([]value, error) {
	var out []value
	for _, length := range []int{512, 2048} {
		x, err := o.foldStream(ctx, length)
		if err != nil {
			return nil, err
		}
		o.remark("L=%d: %.2f CPU us a trajectory, server and grouper", length, float64(x.cpu.Microseconds())/float64(x.Trajectories))
		out = append(out, value{v: x.rate(), cpu: x.cpu.Seconds() / (float64(x.Trajectories*length) / 1e6)})
	}
	return out, nil
}

func (o *options) foldStream(ctx context.Context, length int) (f folded, err error) {
	j := o.job(length, max(80, int(12800*o.volume)/8*8), "1s")
	j.Profile = o.profile
	if j.Dir, err = o.workDir(); err != nil {
		return f, err
	}
	defer os.RemoveAll(j.Dir)
	k := &cast{o: o, ctx: ctx}
	defer k.kill()
	for _, role := range []string{"server", "prefill", "group"} {
		if err := ready(k.role(role, j)); err != nil {
			return f, err
		}
	}
	if err := k.letGo(); err != nil {
		return f, err
	}
	if err := k.children[2].hear(&f); err != nil {
		return f, err
	}
	f.cpu = k.cpu()
	return f, k.end()
}

// coreFigure is the grouper without a bus.
func coreFigure(ctx context.Context, o *options) ([]value, error) {
	var f folded
	k := &cast{o: o, ctx: ctx}
	defer k.kill()
	c, err := k.role("core", o.job(512, max(80, int(25600*o.volume)/8*8), ""))
	if err := ready(c, err); err != nil {
		return nil, err
	}
	if err := k.letGo(); err != nil {
		return nil, err
	}
	if err := c.hear(&f); err != nil {
		return nil, err
	}
	return []value{{v: f.rate()}, {v: f.GroupBytes}}, k.end()
}

// engineFile is what scripts/bench-rollouts writes.
type engineFile struct {
	Busy float64 `json:"busy_of_ideal"`
	CPU  float64 `json:"cpu_us_per_step"`
	RSS  float64 `json:"rss_mb"`
}

var errMissing = errors.New("not measured")

// engine is the rollout engine's own benchmark.
func engine(ctx context.Context, o *options) ([]value, error) {
	script := filepath.Join(o.scripts, "bench-rollouts")
	if _, err := os.Stat(script); err != nil {
		return nil, fmt.Errorf("%w: no %s", errMissing, script)
	}
	args := []string{"run", "./" + strings.TrimPrefix(script, "./"), "-json"}
	if o.volume < 1 {
		args = append(args, "-live", "200", "-episodes", "400")
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script, err)
	}
	var f engineFile
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", script, err)
	}
	return []value{{v: f.Busy}, {v: f.CPU}, {v: f.RSS}}, nil
}
