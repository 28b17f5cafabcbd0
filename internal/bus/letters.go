package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// Letter is a dead letter as DEADLETTER has it.
type Letter struct {
	DeadLetter           // Data is nil until [ReadLetter]
	Seq        uint64    // in DEADLETTER
	Number     uint64    // what people call it: Seq, or of a stub that of the letter it stands for
	Time       time.Time // when it was stored
	Dropped    time.Time // when its body was dropped; zero while it is there
	Replaced   int       // messages that a stub stands for
	Size       int       // bytes of the body that are there, all parts; Bytes is how many there were
	Header     nats.Header
	parts      []uint64
}

// stubID is the message id of the stub of a letter, before its number.
const stubID = "dropped/"

// errAll ends a look at a stream that has been read to its end.
var errAll = errors.New("read to the end")

// Letters calls fn with every letter there is now, oldest first, without bodies.
func Letters(ctx context.Context, c *Conn, run subjects.Run, fn func(*Letter) error) error {
	state, err := StreamState(ctx, c, run, subjects.DeadLetter)
	if err != nil || state.Msgs == 0 {
		return err
	}
	parts := map[uint64]int{} // sizes of the parts whose last is still to come
	prefix := run.DeadLetterSubject("")
	err = EachHeaders(ctx, c, run.StreamName(subjects.DeadLetter), "", state.FirstSeq, func(msgs []HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			if IsPart(m.Header) {
				parts[m.Seq] = m.Size
			} else if err := fn(letter(m, strings.TrimPrefix(m.Subject, prefix), parts)); err != nil {
				return err
			}
			if m.Seq >= state.LastSeq {
				return errAll
			}
		}
		return nil
	})
	if errors.Is(err, errAll) {
		return nil
	}
	return err
}

// letter reads the headers of a dead letter; what they do not say is zero.
func letter(m *HeaderMsg, stage string, parts map[uint64]int) *Letter {
	h := m.Header
	l := &Letter{Seq: m.Seq, Number: m.Seq, Time: m.Time, Size: m.Size, Header: h}
	l.Stage, l.Reason, l.Source, l.ID = stage, h.Get(subjects.HeaderReason), h.Get(subjects.HeaderSource), h.Get(subjects.HeaderID)
	l.Sequence, _ = strconv.ParseUint(h.Get(subjects.HeaderSequence), 10, 64)
	l.Bytes, _ = strconv.Atoi(h.Get(subjects.HeaderBytes))
	l.Item = WholeMessage
	if n, err := strconv.Atoi(h.Get(subjects.HeaderItem)); err == nil {
		l.Item = n
	}
	if when, replaced, ok := strings.Cut(h.Get(subjects.HeaderDropped), " "); ok {
		l.Dropped, _ = time.Parse(time.RFC3339, when)
		l.Replaced, _ = strconv.Atoi(replaced)
		if n, err := strconv.ParseUint(strings.TrimPrefix(h.Get(jetstream.MsgIDHeader), stubID), 10, 64); err == nil {
			l.Number = n
		}
	}
	l.parts, _ = partSequences(m.Seq, h)
	for _, p := range l.parts {
		l.Size += parts[p]
		delete(parts, p)
	}
	l.Bytes = max(l.Bytes, l.Size)
	return l
}

// ReadLetter reads the body of a letter into its Data; a dropped one has none.
func ReadLetter(ctx context.Context, c *Conn, run subjects.Run, l *Letter) error {
	f := NewFetcher(c, run.StreamName(subjects.DeadLetter), FetchConfig{})
	return f.Fetch(ctx, []SeqSize{{l.Seq, l.Size}}, func(_ uint64, _ nats.Header, data []byte) error {
		l.Data = data
		return nil
	})
}

// DropLetter removes the body of a letter. A stub with its headers is stored
// first: groupers and inspectors rebuild from DEADLETTER what was rejected, and
// a group, decided or not, must not change because somebody made room. A stream
// without room for the stub loses the letter first if that is safe: if it
// rejects something below low, which no open group needs. Else ErrStreamFull.
func DropLetter(ctx context.Context, c *Conn, run subjects.Run, l *Letter, low uint64, now time.Time) error {
	hdr := nats.Header{}
	for k, v := range l.Header {
		if !strings.HasPrefix(k, "Nats-") && k != subjects.HeaderParts {
			hdr[k] = v
		}
	}
	if l.Bytes > 0 {
		hdr[subjects.HeaderBytes] = []string{strconv.Itoa(l.Bytes)}
	}
	hdr[subjects.HeaderDropped] = []string{now.UTC().Format(time.RFC3339) + " " + strconv.Itoa(1+len(l.parts))}
	stub := func() error {
		_, err := Send(ctx, c, run.DeadLetterSubject(l.Stage), stubID+strconv.FormatUint(l.Seq, 10), hdr, nil)
		return err
	}
	err := stub()
	if err == nil {
		return removeLetter(ctx, c, run, l)
	}
	if errors.Is(err, ErrStreamFull) && l.Sequence < low {
		// Not the last one: who reads up to the last sequence waits for its message.
		state, failed := StreamState(ctx, c, run, subjects.DeadLetter)
		if failed == nil && l.Seq < state.LastSeq {
			if err = removeLetter(ctx, c, run, l); err == nil {
				err = stub()
			}
		}
	}
	if err != nil {
		return fmt.Errorf("drop letter %d: %w", l.Seq, err)
	}
	return nil
}

// removeLetter deletes the messages of a letter; those that are gone are no error.
func removeLetter(ctx context.Context, c *Conn, run subjects.Run, l *Letter) error {
	stream := run.StreamName(subjects.DeadLetter)
	for _, seq := range append([]uint64{l.Seq}, l.parts...) {
		err := guarded(ctx, c, "delete from", stream, func(ctx context.Context) error {
			st, err := c.js.Stream(ctx, stream)
			if err != nil {
				return err
			}
			if err = st.DeleteMsg(ctx, seq); errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("drop letter %d: %w", l.Seq, err)
		}
	}
	return nil
}

// SkipLetter takes the next sequence of DEADLETTER, which it returns, and leaves
// nothing there: in a copy of a run, for a letter that is gone.
func SkipLetter(ctx context.Context, c *Conn, run subjects.Run, number uint64) (uint64, error) {
	seq, err := Send(ctx, c, run.DeadLetterSubject("gone"), "gone/"+strconv.FormatUint(number, 10), nil, nil)
	if err != nil {
		return 0, err
	}
	return seq, removeLetter(ctx, c, run, &Letter{Seq: seq})
}

// CopyID is the message id of a letter in a copy of its run. That of a stub says
// which letter it stands for, and stays.
func CopyID(h nats.Header, seq uint64) string {
	if id := h.Get(jetstream.MsgIDHeader); strings.HasPrefix(id, stubID) {
		return id
	}
	return "copy/" + strconv.FormatUint(seq, 10)
}
