package otel

import (
	"crypto/sha256"
	"strconv"

	"github.com/headrace/headrace/subjects"
)

// TraceID is the id of a trajectory's trace: it follows from the run and the
// trajectory's id, so links to it can be made without asking anybody.
func TraceID(run subjects.Run, trajectory string) [16]byte {
	sum := sha256.Sum256([]byte("headrace trace " + string(run) + " " + trajectory))
	return [16]byte(sum[:16])
}

// spanID is the n-th span of a kind in a trace.
func spanID(trace [16]byte, kind string, n int) []byte {
	sum := sha256.Sum256(append(trace[:], " "+kind+" "+strconv.Itoa(n)...))
	return sum[:8]
}
