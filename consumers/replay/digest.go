package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Digest sums up what was replayed: a SHA-256 over each trajectory's producer,
// index entry and body, in order. Where it lay and when it came are no part of it,
// so a copy of a run has the digest of the run.
type Digest struct {
	Trajectories int   `json:"trajectories"`
	Tokens       int64 `json:"tokens"`
	Bytes        int64 `json:"bytes"`      // of bodies
	Unreadable   int   `json:"unreadable"` // bodies that are missing or damaged
	hash         hash.Hash
}

// Add notes the next trajectory.
func (d *Digest) Add(r *Record) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	d.Trajectories++
	d.Tokens += int64(r.Entry.Tokens)
	d.Bytes += int64(len(r.Body))
	if r.Err != nil {
		d.Unreadable++
	}
	e := r.Entry
	e.Offset, e.Token = 0, "" // its place in a bundle, and the lease's secret
	d.part([]byte(r.Producer))
	d.part(e.Append(nil))
	d.part(r.Body)
}

// part hashes a field behind its length, so that fields cannot run together.
func (d *Digest) part(b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	d.hash.Write(n[:])
	d.hash.Write(b)
}

// Sum is the digest so far, as "sha256:" and hexadecimal digits.
func (d *Digest) Sum() string {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	return "sha256:" + hex.EncodeToString(d.hash.Sum(nil))
}
