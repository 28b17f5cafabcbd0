package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

func second(s float64) time.Time { return time.Unix(0, int64(1e18)+int64(s*1e9)) }

// screen is a terminal that keeps what it shows, as far as this package's escapes go.
type screen struct {
	mu            sync.Mutex
	width, height int
	keys          chan byte
	lines         []string
	row           int
}

func (s *screen) Size() (int, int)  { return s.width, s.height }
func (s *screen) Keys() <-chan byte { return s.keys }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(b)
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[K"):
			text = text[3:]
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines, text = s.lines[:s.row], text[3:]
		case strings.HasPrefix(text, "\r\n"):
			s.row, text = s.row+1, text[2:]
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\x1b': // up
			n, rest := 0, text[2:]
			for rest[0] != 'A' {
				n, rest = 10*n+int(rest[0]-'0'), rest[1:]
			}
			s.row, text = s.row-n, rest[1:]
		default:
			end := strings.IndexAny(text, "\r\x1b")
			if end < 0 {
				end = len(text)
			}
			for len(s.lines) <= s.row {
				s.lines = append(s.lines, "")
			}
			s.lines[s.row], text = text[:end], text[end:]
		}
	}
	return len(b), nil
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func feed(b *board.Board, steps int) {
	for i := range steps {
		b.Entry(&subjects.Entry{At: time.Now().UnixNano(), Batches: []subjects.Batch{{Step: subjects.Step(i + 1), RewardMean: .5}}})
		b.Commit(&subjects.CommitEvent{Step: subjects.Step(i + 1), Incarnation: 1, At: time.Now().UnixNano(), TrainSeconds: 1})
	}
}

func TestShow_RedrawsInPlaceUntilTheRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board.New(board.Config{Run: "lake-1", MaxSteps: 10, Started: time.Now()})
		s := &screen{width: 80, height: 40, keys: make(chan byte)}
		done := make(chan error, 1)
		go func() { done <- Show(t.Context(), Options{Board: b, Terminal: s}) }()
		synctest.Wait()
		before := s.text()
		feed(b, 3)
		time.Sleep(time.Second)
		synctest.Wait()
		now := s.text()
		if strings.Contains(before, "3/10") || !strings.Contains(now, "3/10") || strings.Count(now, "headrace lake-1") != 1 {
			t.Errorf("showed\n%s\nthen\n%s", before, now)
		}
		b.Entry(&subjects.Entry{At: time.Now().UnixNano(), End: "complete"})
		if err := <-done; err != nil || !strings.Contains(s.text(), "ended: complete") {
			t.Errorf("%v, shows\n%s", err, s.text())
		}
	})
}

func TestShow_EndsWithAKey(t *testing.T) {
	for _, key := range []byte{'q', controlC} {
		s := &screen{width: 80, height: 24, keys: make(chan byte, 2)}
		s.keys <- 'x'
		s.keys <- key
		if err := Show(t.Context(), Options{Board: board.New(board.Config{Run: "lake-1"}), Terminal: s}); !errors.Is(err, ErrQuit) {
			t.Errorf("key %d: %v", key, err)
		}
	}
}

func TestShow_IsALineNowAndThenWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board.New(board.Config{Run: "lake-1", MaxSteps: 10})
		feed(b, 2)
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		if err := Show(ctx, Options{Board: b, Out: &out}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 4 || !strings.Contains(lines[3], "step 2/10") {
			t.Errorf("wrote %q", lines)
		}
	})
}

func TestShow_JSONIsAStateALine(t *testing.T) {
	b := board.New(board.Config{Run: "lake-1", MaxSteps: 10})
	feed(b, 2)
	var out bytes.Buffer
	if err := Show(t.Context(), Options{Board: b, Out: &out, Once: true, JSON: true}); err != nil {
		t.Fatal(err)
	}
	var s board.State
	if err := json.Unmarshal(out.Bytes(), &s); err != nil || strings.Count(out.String(), "\n") != 1 || s.Step.Committed != 2 {
		t.Errorf("wrote %s, %v", out.String(), err)
	}
}

func TestShow_OfAStoppedRunIsOnePicture(t *testing.T) {
	var out bytes.Buffer
	err := Show(t.Context(), Options{Board: board.New(board.Config{Run: "lake-1"}), Out: &out, Stopped: func(s *board.State) bool { return !s.Live }})
	if err != nil || !strings.Contains(out.String(), "nobody is heard of") {
		t.Errorf("wrote %q, %v", out.String(), err)
	}
}
