package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	limitStream = "LIMIT"
	limitWindow = 4 << 20 // bytes a producer has in flight, as the publisher of internal/bus
)

// limitMessages is how many messages each producer sends, and their size: the
// bytes of the job's bodies in messages of bundle size.
func (j job) limitMessages() (each, size int) {
	count, body := bundleShape(j.Length)
	total := (j.Groups*groupSize + count - 1) / count
	return (total + j.Producers - 1) / j.Producers, count * body
}

func limitProduce(ctx context.Context, j job, p *parent) error {
	conn, err := j.connect(ctx, "limit")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // everything is acknowledged
	each, size := j.limitMessages()
	js, err := jetstream.New(conn.NC(), jetstream.WithPublishAsyncMaxPending(max(1, limitWindow/size)))
	if err != nil {
		return err
	}
	body := make([]byte, size)
	if err := p.ready(none{}); err != nil {
		return err
	}
	out := sent{Began: time.Now().UnixNano(), Bundles: uint64(each)}
	subject := fmt.Sprintf("limit.%d", j.Index)
	for range each {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: body}, jetstream.WithStallWait(30*time.Second)); err != nil {
			return err
		}
	}
	<-js.PublishAsyncComplete()
	if err := p.say(out); err != nil {
		return err
	}
	<-p.gone
	return nil
}

func limitConsume(ctx context.Context, j job, p *parent) error {
	conn, err := j.connect(ctx, "limit")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the figures are out
	st, err := conn.JS().CreateStream(ctx, jetstream.StreamConfig{Name: limitStream, Subjects: []string{"limit.*"}, AllowDirect: true})
	if err != nil {
		return err
	}
	consumer, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	in, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(512, 32<<20))
	if err != nil {
		return err
	}
	defer in.Stop()
	if err := p.ready(none{}); err != nil {
		return err
	}
	each, size := j.limitMessages()
	for range each * j.Producers {
		m, err := in.Next()
		if err != nil {
			return err
		}
		if len(m.Data()) != size {
			return fmt.Errorf("message of %d bytes, want %d", len(m.Data()), size)
		}
	}
	if err := p.say(taken{Times: []int64{time.Now().UnixNano()}}); err != nil {
		return err
	}
	<-p.gone
	return nil
}
