package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/metrics"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// serve is the server, as `headrace up` and `headrace bus` run it.
func serve(ctx context.Context, j job, p *parent) error {
	s, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: filepath.Join(j.Dir, "store"), Sync: j.Sync, CredentialsFile: j.credentials(), Log: logger()})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if err := p.ready(none{}); err != nil {
		return err
	}
	defer j.profile("server")()
	<-p.gone
	return nil
}

// sent is what a producer reports.
type sent struct {
	Began   int64   `json:"began"` // first publish, Unix nanoseconds
	Bundles uint64  `json:"bundles"`
	Batches []int64 `json:"batches"` // paced: the last trajectory of each batch, before it is published
}

// produce publishes its part of the groups with the real publisher.
func produce(ctx context.Context, j job, p *parent) error {
	name := "p" + strconv.Itoa(j.Index)
	conn, err := j.connect(ctx, name)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // everything is acknowledged
	pub := bus.NewPublisher(conn, bus.PublisherConfig{Run: benchRun, Producer: name, Log: logger()})
	admitted, err := admit(conn, j)
	if err != nil {
		return err
	}
	says, err := j.speaker(ctx, conn, metrics.RoleProducer, name)
	if err != nil {
		return err
	}
	defer says.stop()
	if err := p.ready(none{}); err != nil {
		return err
	}
	stop := j.profile("produce")
	out := sent{Began: time.Now().UnixNano()}
	if j.Pace > 0 {
		out.Batches, err = j.producePaced(ctx, pub, newSample(j.Length, name))
	} else {
		err = j.produceAll(ctx, pub, newSample(j.Length, name), admitted, says)
	}
	stop()
	if err != nil {
		return err
	}
	out.Bundles = pub.Stats().Bundles
	if err := p.say(out); err != nil {
		return err
	}
	<-p.gone
	return pub.Close(context.WithoutCancel(ctx))
}

// produceAll plays Live episodes at once, each of which finishes at once.
func (j job) produceAll(ctx context.Context, pub *bus.Publisher, s *sample, admitted *admission, says *speaker) error {
	episodes, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for lane := range j.Live {
		episodes.Go(func() error {
			for {
				began := says.now()
				n := int(next.Add(1)) - 1
				group := j.Index + n/groupSize*j.Producers
				if group >= j.Groups {
					return nil
				}
				admitted.wait(group)
				t := s.trajectory(group, n%groupSize)
				e := says.episode(int32(lane), began, t) //nolint:gosec // small
				turned := e.Now()
				if _, err := pub.Publish(ctx, t); err != nil {
					return err
				}
				says.played(e, int32(lane), turned) //nolint:gosec // small
			}
		})
	}
	return episodes.Wait()
}

// producePaced finishes whole groups at even intervals.
func (j job) producePaced(ctx context.Context, pub *bus.Publisher, s *sample) ([]int64, error) {
	var last []int64
	tick := time.NewTicker(time.Duration(float64(time.Second) / j.Pace))
	defer tick.Stop()
	for group := range j.Groups {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		episodes, ctx := errgroup.WithContext(ctx)
		sending := make([]int64, groupSize)
		for slot := range groupSize {
			t := s.trajectory(group, slot)
			episodes.Go(func() error {
				sending[slot] = time.Now().UnixNano()
				_, err := pub.Publish(ctx, t)
				return err
			})
		}
		if err := episodes.Wait(); err != nil {
			return nil, err
		}
		if (group+1)%j.GroupsPerBatch == 0 {
			at := int64(0)
			for _, t := range sending {
				at = max(at, t)
			}
			last = append(last, at)
		}
	}
	return last, nil
}

// consume is grouper and bridge, in one process as `headrace up` has them.
func consume(ctx context.Context, j job, p *parent) error {
	groupConn, err := j.connect(ctx, "grouper")
	if err != nil {
		return err
	}
	defer groupConn.Close() //nolint:errcheck // the figures are out
	bridgeConn, err := j.connect(ctx, "bridge")
	if err != nil {
		return err
	}
	defer bridgeConn.Close() //nolint:errcheck // the figures are out
	if err := bus.EnsureStreams(ctx, groupConn, benchRun, subjects.StreamOptions{}); err != nil {
		return err
	}
	for _, x := range []struct {
		conn           *bus.Conn
		role, instance string
	}{{groupConn, metrics.RoleGrouper, "bench"}, {bridgeConn, metrics.RoleBridge, "bench"}} {
		says, err := j.page(ctx, x.conn, x.role, x.instance)
		if err != nil {
			return err
		}
		defer says()
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return j.group(ctx, groupConn, true) })
	parts.Go(func() error {
		rows := j.GroupsPerBatch * groupSize
		return trainerbridge.Run(ctx, trainerbridge.Config{
			Conn: bridgeConn, Run: benchRun, Listen: []string{j.Feed}, Instance: "bench", Vocab: vocab, Inspect: true, Log: logger(),
			Layout:       layout.Config{Buckets: []int{j.Length}, Rows: rows, MaxRows: rows, TokenVersions: j.Versions},
			DrainTimeout: time.Second,
			OnListen: func([]string) {
				parts.Go(func() error {
					if err := p.ready(none{}); err != nil {
						return err
					}
					stop := j.profile("consume")
					<-ctx.Done()
					stop()
					return nil
				})
			},
		})
	})
	if err := parts.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// grouping is the configuration of the benchmark's grouper: the trainer is never
// waited for, commits are folded all the same.
func (j job) grouping(inspect bool) grouper.Config {
	return grouper.Config{
		Source: grouper.SourceExternal, Steps: int64(j.batches()), GroupSize: groupSize, GroupsPerBatch: j.GroupsPerBatch,
		MaxStaleness: new(1 << 20), Stale: grouper.PolicyKeep, Inspect: new(inspect),
	}
}

func (j job) group(ctx context.Context, conn *bus.Conn, inspect bool) error {
	err := service.Run(ctx, service.Config{
		Conn: conn, Run: benchRun, Grouper: j.grouping(inspect), Environment: benchEnv, Writer: "bench", Log: logger(),
		Sampling: subjects.Sampling{Temperature: 1},
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("group: %w", err)
	}
	<-ctx.Done() // the run has ended before the benchmark
	return nil
}
