package dataset

import "math/bits"

// permutation is a keyed bijection on [0, n): a balanced Feistel network on
// the smallest even number of bits that holds n, walked along its cycle until
// it lands below n (fewer than four rounds of it on average).
type permutation struct {
	n    uint64
	half uint // bits of each half
	keys [6]uint64
}

func newPermutation(n, seed, epoch uint64) permutation {
	p := permutation{n: n, half: uint(max(1, (bits.Len64(n-1)+1)/2))}
	state := mix(seed) ^ mix(epoch+0x9e3779b97f4a7c15)
	for i := range p.keys {
		state += 0x9e3779b97f4a7c15
		p.keys[i] = mix(state)
	}
	return p
}

// at is the i-th element; i must be below n.
func (p *permutation) at(i uint64) uint64 {
	for {
		if i = p.round(i); i < p.n {
			return i
		}
	}
}

func (p *permutation) round(x uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	left, right := x>>p.half, x&mask
	for _, k := range p.keys {
		left, right = right, left^(mix(right^k)&mask)
	}
	return left<<p.half | right
}

// mix is the finaliser of SplitMix64: every bit of x moves every bit of it.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Mix is a well-mixed function of its arguments, for seeds that must differ.
func Mix(values ...uint64) uint64 {
	h := uint64(len(values))
	for _, v := range values {
		h = mix(h + 0x9e3779b97f4a7c15 + v)
	}
	return h
}
