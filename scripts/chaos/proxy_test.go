package main

import (
	"io"
	"net"
	"slices"
	"testing"
)

func TestFrames_CutTheProtocolWhereItsMessagesEnd(t *testing.T) {
	want := []string{"PING\r\n", "MSG _INBOX.a.1 3 5\r\nab\r\nc\r\n", "HPUB hr.x.y _INBOX.b 12 15\r\nNATS/1.0\r\n\r\nabc\r\n", "+OK\r\n"}
	a, b := net.Pipe()
	go func() {
		for _, frame := range want {
			io.WriteString(a, frame) //nolint:errcheck // the reader notices
		}
		a.Close() //nolint:errcheck // a pipe
	}()
	var got []string
	for in := newFrames(b); ; {
		frame, err := in.next()
		if err != nil {
			break
		}
		got = append(got, string(frame))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestIsAck_PublishesLeasesAndTheirAnswers(t *testing.T) {
	for _, c := range []struct {
		frame string
		d     direction
		want  bool
	}{
		{"MSG _INBOX.a.1 3 30\r\n{\"stream\":\"hr_x_LEDGER\",\"seq\":1}\r\n", toClient, true},
		{"MSG _INBOX.a.1 3 0\r\n\r\n", toClient, true},
		{"MSG _INBOX.a.1 3 22\r\n{\"type\":\"io.nats.jet\"}\r\n", toClient, false},
		{"HMSG _INBOX.a.1 3 12 12\r\nNATS/1.0\r\n\r\n\r\n", toClient, false},
		{"PUB $JS.ACK.s.c.1.1.1.1.0 _INBOX.z 4\r\n+ACK\r\n", toServer, true},
		{"PUB hr.x.rollouts.p _INBOX.z 1\r\na\r\n", toServer, false},
		{"PING\r\n", toServer, false},
	} {
		if got := isAck([]byte(c.frame), c.d); got != c.want {
			t.Errorf("%q: %v", c.frame, got)
		}
	}
}

// passed is what comes out when acks 1, 2 and 3 are meddled with.
func passed(t *testing.T, mode string) string {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan string)
	go func() {
		text, _ := io.ReadAll(b)
		done <- string(text)
	}()
	m, out := &meddler{mode: mode, draw: func(int) int { return 1 }}, &outlet{to: a}
	for _, frame := range []string{"1", "2", "3"} {
		if err := m.meddle(out, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	out.flush()
	a.Close() //nolint:errcheck // a pipe
	return <-done
}

func TestMeddler_DuplicatesReordersAndWithholds(t *testing.T) {
	for mode, want := range map[string]string{"duplicate": "112233", "reorder": "213", "withhold": ""} {
		if got := passed(t, mode); got != want {
			t.Errorf("%s: %q, want %q", mode, got, want)
		}
	}
}
