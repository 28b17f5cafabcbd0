package service

import (
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// ErrManifest says that the manifests of a run's batches do not fit the
// server's messages.
var ErrManifest = fmt.Errorf("manifest: %w", bus.ErrTooLarge)

// Fits reports whether the manifest of the largest batch that cfg allows fits a
// message of at most maxPayload bytes, headers included. A batch is one decision and
// so one message of the ledger: a run that could not write one is refused
// before it starts.
func Fits(cfg grouper.Config, maxPayload int64) error {
	size, room := cfg.GroupSize, maxPayload-headroom
	if size == 0 {
		size = cfg.WithDefaults().GroupSize
	}
	member, group := manifestBytes()
	members := cfg.BatchTrajectories()
	need := int64(members)*member + int64(members/size+1)*group
	if need <= room {
		return nil
	}
	perGroup := int64(size)*member + group
	return fmt.Errorf("%w: a batch has up to %d trajectories, whose manifest takes up to %d KiB; this server's messages hold %d KiB (max_payload): "+
		"raise that (at most 64 MB), or train on at most %d groups of %d a step", ErrManifest, members, need>>10, room>>10, max(0, room/perGroup-1), size)
}

// manifestBytes is the most that one trajectory, and one group, take in a manifest.
func manifestBytes() (member, group int64) {
	m := subjects.Member{Slot: math.MaxInt16, Attempt: math.MaxInt16, Seq: 1 << 40, Index: subjects.MaxBundle, Offset: math.MaxInt32, Length: math.MaxInt32,
		Checksum: math.MaxUint32, Status: subjects.Succeeded, Reward: .1, Segments: 1 << 12, Tokens: subjects.MaxTokens, Longest: subjects.MaxTokens,
		MinVersion: math.MaxInt32, MaxVersion: math.MaxInt32, Advantage: .1, Masked: true}
	g := subjects.BatchGroup{Group: subjects.TrainGroup(1 << 40), Environment: strings.Repeat("e", 64), Members: make([]subjects.Member, 0)}
	return encodedBytes(&m), encodedBytes(&g)
}

func encodedBytes(v any) int64 {
	b, err := subjects.EncodeMessage(v)
	if err != nil {
		panic(err) // of plain numbers and strings
	}
	return int64(len(b))
}
