package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// taken is what a trainer reports.
type taken struct {
	Times   []int64   `json:"times"`   // when each batch was there, Unix nanoseconds
	Took    []float64 `json:"took"`    // seconds from asking to arrays
	Touched []float64 `json:"touched"` // seconds to read them once
}

// outcome is one run of a line.
type outcome struct {
	job     job
	wall    time.Duration // first publish to last batch
	cpu     time.Duration // of all processes
	taken   taken
	lasts   []int64 // paced: when each batch's last trajectory was sent
	bundles uint64
	parts   string
	seen    []watched
}

func (x outcome) rate() float64       { return x.job.tokens() / x.wall.Seconds() }
func (x outcome) cpuPerMtok() float64 { return x.cpu.Seconds() / (x.job.tokens() / 1e6) }

// headrace runs a job through the whole line: producers, server, grouper and
// bridge, trainer.
func (o *options) headrace(ctx context.Context, j job) (outcome, error) {
	return o.line(ctx, j, func(k *cast, j *job) (*child, []*child, error) {
		j.Feed = "unix:" + filepath.Join(j.Dir, "feed.sock")
		for _, role := range []string{"server", "consume"} {
			if err := ready(k.role(role, *j)); err != nil {
				return nil, nil, err
			}
		}
		if err := k.watch(*j); err != nil {
			return nil, nil, err
		}
		trainer, err := k.python("trainer.py", *j)
		if err := ready(trainer, err); err != nil {
			return nil, nil, err
		}
		from, err := k.producers(*j, func(j job) (*child, error) { return k.role("produce", j) })
		return trainer, from, err
	})
}

// redis runs the same job through Redis Streams.
func (o *options) redis(ctx context.Context, j job) (outcome, error) {
	return o.line(ctx, j, func(k *cast, j *job) (*child, []*child, error) {
		if err := k.redisServer(j); err != nil {
			return nil, nil, err
		}
		trainer, err := k.python("redis_trainer.py", *j)
		if err := ready(trainer, err); err != nil {
			return nil, nil, err
		}
		from, err := k.producers(*j, func(j job) (*child, error) { return k.python("redis_producer.py", j) })
		return trainer, from, err
	})
}

// limit moves the same bytes through JetStream and nothing else.
func (o *options) limit(ctx context.Context, j job) (outcome, error) {
	return o.line(ctx, j, func(k *cast, j *job) (*child, []*child, error) {
		if err := ready(k.role("server", *j)); err != nil {
			return nil, nil, err
		}
		consumer, err := k.role("limit-consume", *j)
		if err := ready(consumer, err); err != nil {
			return nil, nil, err
		}
		from, err := k.producers(*j, func(j job) (*child, error) { return k.role("limit-produce", j) })
		return consumer, from, err
	})
}

// line casts a job, lets it go and measures it.
func (o *options) line(ctx context.Context, j job, castFor func(*cast, *job) (*child, []*child, error)) (x outcome, err error) {
	if j.Dir, err = o.workDir(); err != nil {
		return x, err
	}
	defer os.RemoveAll(j.Dir)
	j.Profile = o.profile
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	k := &cast{o: o, ctx: ctx}
	defer k.kill()
	to, from, err := castFor(k, &j)
	if err != nil {
		return x, err
	}
	if err := k.letGo(); err != nil {
		return x, err
	}
	x.job = j
	if err := to.hear(&x.taken); err != nil {
		return x, err
	}
	x.cpu = k.cpu()
	began := int64(0)
	for _, c := range from {
		var s sent
		if err := c.hear(&s); err != nil {
			return x, err
		}
		if began == 0 || s.Began < began {
			began = s.Began
		}
		x.bundles += s.Bundles
		x.lasts = append(x.lasts, s.Batches...)
	}
	x.wall = time.Duration(x.taken.Times[len(x.taken.Times)-1] - began)
	x.parts = k.breakdown()
	x.seen, err = k.stopWatching()
	return x, errors.Join(err, k.end())
}

// watch starts the watchers that a job has.
func (k *cast) watch(j job) error {
	for _, j.Kind = range watchers[:j.Watchers] {
		if err := ready(k.role("watch", j)); err != nil {
			return err
		}
		k.watching = append(k.watching, k.children[len(k.children)-1])
	}
	return nil
}

// stopWatching ends the watchers and asks what they saw.
func (k *cast) stopWatching() (all []watched, err error) {
	for _, c := range k.watching {
		var w watched
		_ = c.in.Close()
		err = errors.Join(err, c.hear(&w))
		all = append(all, w)
	}
	return all, err
}

// workDir is an empty folder whose path is short enough for a socket.
func (o *options) workDir() (string, error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(o.dir)
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(abs, "w")
}

// ready waits until a child says that it is.
func ready(c *child, err error) error {
	if err != nil {
		return err
	}
	return c.hear(&none{})
}

func (k *cast) producers(j job, start func(job) (*child, error)) (all []*child, err error) {
	for j.Index = range j.Producers {
		c, err := start(j)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for _, c := range all {
		if err := c.hear(&none{}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// redisServer starts Redis with an append-only file, as it comes or, for the
// pipelined line, never rewritten, and waits until it answers.
func (k *cast) redisServer(j *job) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	j.Port = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	argv := []string{"redis-server", "--port", fmt.Sprint(j.Port), "--bind", "127.0.0.1", "--dir", j.Dir, "--logfile", "redis.log",
		"--save", "", "--appendonly", "yes", "--appendfsync", j.Sync}
	if j.Pipeline > 0 {
		argv = append(argv, "--auto-aof-rewrite-percentage", "0")
	}
	c, err := k.add("server", argv...)
	if err != nil {
		return err
	}
	c.signal = syscall.SIGTERM
	for range 200 {
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", j.Port)); err == nil {
			return conn.Close()
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("redis-server does not answer on port %d", j.Port)
}
