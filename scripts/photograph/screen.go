package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// cell is one character of a terminal and how it looks.
type cell struct {
	r               rune
	ink             string // a CSS colour, empty: the terminal's
	bold, dim, flip bool
}

// screen is as much of a terminal as a program that redraws itself needs: text,
// cursor movement, erasing and colours. What it does not know it leaves out.
type screen struct {
	width, height int
	cells         [][]cell
	row, col      int
	look          cell
	rest          []byte // of a sequence that has not all come
}

func newScreen(width, height int) *screen {
	s := &screen{width: width, height: height}
	s.erase(0, height)
	return s
}

func (s *screen) erase(from, to int) {
	for len(s.cells) < s.height {
		s.cells = append(s.cells, nil)
	}
	for i := max(0, from); i < min(to, s.height); i++ {
		s.cells[i] = make([]cell, s.width)
	}
}

func (s *screen) any() bool {
	for _, line := range s.cells {
		for _, c := range line {
			if c.r > ' ' {
				return true
			}
		}
	}
	return false
}

func (s *screen) copy() screen {
	out := *s
	out.cells = make([][]cell, len(s.cells))
	for i, line := range s.cells {
		out.cells[i] = append([]cell(nil), line...)
	}
	return out
}

func (s *screen) write(b []byte) {
	b = append(s.rest, b...)
	for len(b) > 0 {
		n := s.step(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	s.rest = append([]byte(nil), b...)
}

// step takes one character or sequence and says how long it was, 0 when it is not whole.
func (s *screen) step(b []byte) int {
	switch b[0] {
	case '\x1b':
		return s.escape(b)
	case '\n':
		s.newline()
	case '\r':
		s.col = 0
	case '\b':
		s.col = max(0, s.col-1)
	default:
		if !utf8.FullRune(b) {
			return 0
		}
		r, n := utf8.DecodeRune(b)
		if r >= ' ' {
			s.put(r)
		}
		return n
	}
	return 1
}

func (s *screen) newline() {
	if s.row++; s.row >= s.height {
		s.cells = append(s.cells[1:], make([]cell, s.width))
		s.row = s.height - 1
	}
}

func (s *screen) put(r rune) {
	if s.col >= s.width {
		s.col = 0
		s.newline()
	}
	c := s.look
	c.r = r
	s.cells[s.row][s.col] = c
	s.col++
}

func (s *screen) escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != '[' {
		return 2
	}
	end := 2
	for end < len(b) && (b[end] < '@' || b[end] > '~') {
		end++
	}
	if end == len(b) {
		return 0
	}
	s.control(b[end], numbers(string(b[2:end])))
	return end + 1
}

func numbers(text string) (list []int) {
	for _, part := range strings.Split(strings.TrimLeft(text, "?"), ";") {
		n, _ := strconv.Atoi(part)
		list = append(list, n)
	}
	return list
}

func (s *screen) control(final byte, n []int) {
	count := max(1, n[0])
	switch final {
	case 'A':
		s.row = max(0, s.row-count)
	case 'B':
		s.row = min(s.height-1, s.row+count)
	case 'C':
		s.col = min(s.width, s.col+count)
	case 'D':
		s.col = max(0, s.col-count)
	case 'G':
		s.col = min(s.width, count) - 1
	case 'H', 'f':
		s.row, s.col = min(s.height, count)-1, 0
		if len(n) > 1 {
			s.col = min(s.width, max(1, n[1])) - 1
		}
	case 'J':
		s.clear(n[0])
	case 'K':
		s.clearLine(n[0])
	case 'm':
		s.paint(n)
	}
}

func (s *screen) clear(kind int) {
	switch kind {
	case 0:
		s.clearLine(0)
		s.erase(s.row+1, s.height)
	default:
		s.erase(0, s.height)
	}
}

func (s *screen) clearLine(kind int) {
	from := min(s.col, s.width)
	if kind != 0 {
		from = 0
	}
	clear(s.cells[s.row][from:])
}
