package subjects

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strconv"
)

// leaseTokenBytes of the code, leaseTokenLen characters of text: 96 bits, which
// nobody guesses within a run.
const (
	leaseTokenBytes = 12
	leaseTokenLen   = leaseTokenBytes / 3 * 4
)

// LeaseToken is the proof that somebody was handed a task: the first 12 bytes of
// HMAC-SHA256, under the run's key, of kind/group/slot/attempt, in base64url. Only
// who leases the task is shown it, so a producer can fill no slot but those it leased.
func LeaseToken(key []byte, k Kind, g GroupID, s Slot, a Attempt) string {
	return NewLeaseSigner(key).Token(k, g, s, a)
}

// LeaseSigner makes and checks the lease tokens of one run. The key is worked in
// once. It is not safe for concurrent use.
type LeaseSigner struct {
	mac  hash.Hash
	text []byte
	sum  []byte
	made [leaseTokenLen]byte
}

// NewLeaseSigner is a signer with the run's key.
func NewLeaseSigner(key []byte) *LeaseSigner {
	return &LeaseSigner{mac: hmac.New(sha256.New, key), text: make([]byte, 0, 96), sum: make([]byte, 0, sha256.Size)}
}

// Token is the lease token of a task.
func (l *LeaseSigner) Token(k Kind, g GroupID, s Slot, a Attempt) string {
	return string(l.sign(k, g, s, a))
}

// sign is the token, good until the next call.
func (l *LeaseSigner) sign(k Kind, g GroupID, s Slot, a Attempt) []byte {
	l.text = append(append(append(l.text[:0], k...), '/'), g...)
	l.text = strconv.AppendInt(append(l.text, '/'), int64(s), 10)
	l.text = strconv.AppendInt(append(l.text, '/'), int64(a), 10)
	l.mac.Reset()
	_, _ = l.mac.Write(l.text) // a hash never fails
	l.sum = l.mac.Sum(l.sum[:0])
	base64.RawURLEncoding.Encode(l.made[:], l.sum[:leaseTokenBytes])
	return l.made[:]
}

// Valid reports whether the entry carries the token of the task it names. How
// long it takes does not depend on how much of a wrong token is right.
func (l *LeaseSigner) Valid(e *IndexEntry) bool {
	if len(e.Token) != leaseTokenLen {
		return false
	}
	made := l.sign(e.Kind, e.Group, e.Slot, e.Attempt)
	var claimed [leaseTokenLen]byte
	copy(claimed[:], e.Token)
	return subtle.ConstantTimeCompare(made, claimed[:]) == 1
}
