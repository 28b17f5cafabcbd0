package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// direction is which way a frame goes.
type direction int

const (
	toServer direction = iota
	toClient
)

// frames cuts NATS's protocol into messages: a line, and a payload after those
// lines that announce one.
type frames struct{ in *bufio.Reader }

func newFrames(from net.Conn) *frames { return &frames{bufio.NewReaderSize(from, 1<<20)} }

func (f *frames) next() ([]byte, error) {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	switch verb, _, _ := bytes.Cut(line, []byte(" ")); string(verb) {
	case "PUB", "HPUB", "MSG", "HMSG":
		fields := bytes.Fields(line)
		n, err := strconv.Atoi(string(fields[len(fields)-1]))
		if err != nil {
			return nil, err
		}
		head := len(line)
		line = append(line, make([]byte, n+2)...)
		if _, err := io.ReadFull(f.in, line[head:]); err != nil {
			return nil, err
		}
	}
	return line, nil
}

// isAck reports whether a frame is an acknowledgement: of a publish or of an
// acknowledged lease (to the client), or of a lease itself (to the server).
func isAck(frame []byte, d direction) bool {
	line, payload, _ := bytes.Cut(frame, []byte("\r\n"))
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		return false
	}
	if d == toServer {
		return string(fields[0]) == "PUB" && bytes.HasPrefix(fields[1], []byte("$JS.ACK."))
	}
	return string(fields[0]) == "MSG" && bytes.HasPrefix(fields[1], []byte("_INBOX")) &&
		(bytes.HasPrefix(payload, []byte(`{"stream":`)) || len(payload) == 2)
}

// outlet is one direction of a link, written by its pump and by timers.
type outlet struct {
	mu   sync.Mutex
	to   net.Conn
	held []byte // an ack that waits to be overtaken
}

func (o *outlet) pass(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.to.Write(frame)
	return err
}

// meddler is what happens to acknowledgements.
type meddler struct {
	mode string // duplicate, withhold or reorder
	draw func(n int) int
}

const overtakenAfter = 100 * time.Millisecond // at the latest, held acks go on

// meddle passes an acknowledgement on, twice, late or not at all: two of three.
func (m *meddler) meddle(o *outlet, frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.draw(3) == 0 {
		_, err := o.to.Write(frame)
		return err
	}
	switch m.mode {
	case "duplicate":
		frame = append(frame, frame...)
	case "withhold":
		return nil
	case "reorder":
		if o.held == nil {
			o.held = frame
			time.AfterFunc(overtakenAfter, o.flush)
			return nil
		}
		frame, o.held = append(frame, o.held...), nil
	}
	_, err := o.to.Write(frame)
	return err
}

func (o *outlet) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.to.Write(o.held) // the pump notices what is wrong
	o.held = nil
}
