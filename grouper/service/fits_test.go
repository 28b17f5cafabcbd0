package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestFits_TheLargestBatchItAllowsIsWritten(t *testing.T) {
	const payload = 1 << 20
	cfg := grouper.Config{GroupSize: 16, GroupsPerBatch: 1}
	for service.Fits(cfg, payload) == nil {
		cfg.GroupsPerBatch++
	}
	if n := 16 * cfg.GroupsPerBatch; n < 6000 || n > 9000 {
		t.Errorf("a message of 1 MB holds less than %d members", n)
	}
	err := service.Fits(cfg, payload)
	if !errors.Is(err, service.ErrManifest) || !strings.Contains(err.Error(), "max_payload") {
		t.Error(err)
	}
	cfg.GroupsPerBatch--
	b := subjects.Batch{Step: 1 << 40, Rows: 1 << 20, Tokens: 1 << 40, Longest: subjects.MaxTokens, Watermark: 1 << 40, StalenessMean: .1, StalenessMax: 1 << 20, RewardMean: .1}
	for g := range cfg.GroupsPerBatch {
		group := subjects.BatchGroup{Group: subjects.TrainGroup(1<<40 + uint64(g)), Environment: strings.Repeat("e", 64)}
		for slot := range 16 {
			group.Members = append(group.Members, subjects.Member{Slot: subjects.Slot(slot), Seq: 1 << 40, Index: 63, Offset: 1 << 30, Length: 1 << 30, Checksum: 1 << 31,
				Status: subjects.Truncated, Reward: .1, Segments: 1 << 12, Tokens: 1 << 24, Longest: 1 << 24, MinVersion: 1 << 30, MaxVersion: 1 << 30, Advantage: .1, Masked: true})
		}
		b.Groups = append(b.Groups, group)
	}
	data, err := subjects.EncodeMessage(&subjects.Entry{Batches: []subjects.Batch{b}, Writer: strings.Repeat("w", 64)})
	if err != nil {
		t.Fatal(err)
	}
	conn := natstest.Connect(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: payload}))
	if err := bus.EnsureStreams(t.Context(), conn, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Append(t.Context(), conn, run.LedgerSubject(), nil, data, 0); err != nil {
		t.Errorf("%d bytes: %v", len(data), err)
	}
}

func TestRun_ABatchThatNoMessageHoldsIsRefusedBeforeTheRunStarts(t *testing.T) {
	b := newBench(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: 1 << 20}), grouper.Config{GroupSize: 64, GroupsPerBatch: 256, Steps: 1})
	if err := service.Run(context.Background(), b.cfg); !errors.Is(err, service.ErrManifest) {
		t.Errorf("run with batches of 16384 on messages of 1 MB: %v", err)
	}
	if state, err := bus.StreamState(t.Context(), b.conn, run, subjects.Ledger); err != nil || state.Msgs != 0 {
		t.Errorf("%d entries, %v", state.Msgs, err)
	}
}
