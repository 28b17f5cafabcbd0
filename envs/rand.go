package envs

import (
	"hash/fnv"
	"math/rand/v2"
)

// NewRand returns a generator that is decided by a seed and a stream alone, on
// every machine. Environments draw the puzzle from one stream of Task.Seed and
// the chances of play from another, so that neither disturbs the other.
func NewRand(seed int64, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(uint64(seed)), mix(stream^0x9e3779b97f4a7c15)))
}

// mix spreads neighbouring seeds over all 64 bits (the finalizer of
// SplitMix64: Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// HeldOut reports whether a puzzle, by its text, is one of the eighth that is
// kept for evaluation. Environments draw until it agrees with Task.HeldOut:
// seeds alone do not keep small puzzles apart, since two seeds may well give
// the same one.
func HeldOut(puzzle string) bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(puzzle))
	return mix(hash.Sum64())%8 == 0
}
