package bus

import (
	"context"
	"errors"

	"github.com/headrace/headrace/subjects"
)

// WholeMessage is the Item of a dead letter that is a whole message.
const WholeMessage = -1

// DeadLetter is what a stage could not use.
type DeadLetter struct {
	Stage    string // who could not: [subjects.InspectStage], ...
	Reason   string // why, one line
	Source   string // name of the stream the bytes came from
	Sequence uint64 // their sequence there
	Item     int    // place in the bundle, or WholeMessage
	ID       string // trajectory id, where it could be read
	Data     []byte // the original bytes
}

// Bury stores a dead letter and returns its sequence once it is durable. The
// id follows from stage, source, sequence and item, so burying twice within two
// minutes stores once. Data over max_payload travels in parts.
func Bury(ctx context.Context, c *Conn, run subjects.Run, d DeadLetter) (seq uint64, err error) {
	return 0, errors.ErrUnsupported
}
