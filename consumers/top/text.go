package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/headrace/headrace/consumers/board"
)

// style is how a piece of text looks.
type style int

const (
	plain style = iota
	bold
	faint
	good
	bad
	warn
	accent
)

// codes are the SGR parameters of the styles: the terminal's own palette, so
// that they can be read on any background.
var codes = [...]string{plain: "", bold: "1", faint: "2", good: "32", bad: "31", warn: "33", accent: "36"}

// span is text in one style.
type span struct {
	text  string
	style style
}

// line is a line of the screen.
type line []span

func (l *line) add(s style, format string, args ...any) *line {
	if text := clean(fmt.Sprintf(format, args...)); text != "" {
		*l = append(*l, span{text, s})
	}
	return l
}

// clean takes out what a terminal obeys and what takes no or no known room.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) || unicode.Is(unicode.M, r):
			return -1
		}
		return r
	}, s)
}

// columns is how many columns a character takes: two for the scripts that are
// set wide.
func columns(r rune) int {
	if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd) {
		return 2
	}
	return 1
}

func width(s string) (n int) {
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func (l line) width() (n int) {
	for _, s := range l {
		n += width(s.text)
	}
	return n
}

// cut is the text as far as it fits into n columns, with an ellipsis where it does not.
func cut(s string, n int) string {
	if width(s) <= n {
		return s
	}
	at := 0
	for i, r := range s {
		if at += columns(r); at > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// trim takes off what is blank at the end.
func (l line) trim() line {
	if n := len(l) - 1; n >= 0 {
		l[n].text = strings.TrimRight(l[n].text, " ")
	}
	return l
}

// fit cuts a line to a width.
func (l line) fit(n int) line {
	if l.width() <= n {
		return l
	}
	var out line
	for _, s := range l {
		w := width(s.text)
		if w >= n {
			return append(out, span{cut(s.text+" ", n), s.style}) // more comes, or it is itself too long
		}
		out, n = append(out, s), n-w
	}
	return out
}

// text is the line for a terminal.
func (l line) text(colour bool) string {
	var b strings.Builder
	for _, s := range l {
		if colour && s.style != plain {
			b.WriteString("\x1b[" + codes[s.style] + "m" + s.text + "\x1b[0m")
		} else {
			b.WriteString(s.text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// wrap breaks a text into lines of at most n columns, at spaces where there are any.
func wrap(s string, n int) []string {
	var out []string
	now := ""
	for _, word := range strings.Fields(s) {
		switch {
		case now == "":
			now = word
		case width(now)+1+width(word) <= n:
			now += " " + word
		default:
			out, now = append(out, cut(now, n)), word
		}
	}
	if now != "" {
		out = append(out, cut(now, n))
	}
	return out
}

const unknown = "-"

func percent(n board.Number) string {
	if !n.Known() {
		return unknown
	}
	return fmt.Sprintf("%.0f%%", 100*float64(n))
}

// count is a number for people, three digits of it.
func count(n board.Number) string {
	x := float64(n)
	switch {
	case !n.Known():
		return unknown
	case math.Abs(x) >= 1e9:
		return fmt.Sprintf("%.3gG", x/1e9)
	case math.Abs(x) >= 999950:
		return fmt.Sprintf("%.1fM", x/1e6)
	case math.Abs(x) >= 1000:
		return fmt.Sprintf("%.1fk", x/1e3)
	case math.Abs(x) >= 10 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// size is a number of bytes, in powers of 1024.
func size(n board.Number) string {
	x, unit := float64(n), 0
	if !n.Known() {
		return unknown
	}
	for x >= 1000 && unit < 5 {
		x, unit = x/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", x)
	}
	return fmt.Sprintf("%.*f %s", map[bool]int{true: 1, false: 0}[x < 10], x, [...]string{"", "KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}

// seconds is a duration for people.
func seconds(n board.Number) string {
	x := float64(n)
	switch {
	case !n.Known():
		return unknown
	case x < .01:
		return fmt.Sprintf("%.0f ms", 1000*x)
	case x < 10:
		return fmt.Sprintf("%.2f s", x)
	case x < 120:
		return fmt.Sprintf("%.0f s", x)
	case x < 1e9:
		return time.Duration(x * float64(time.Second)).Round(time.Second).String()
	}
	return "ages"
}

// ago is how long ago something was: blank while it is now.
func ago(n board.Number) string {
	if n.Known() && n < 2 {
		return "now"
	}
	if n > 1e9 || !n.Known() {
		return "never"
	}
	if n > 48*3600 {
		return fmt.Sprintf("%.0f days", float64(n)/86400)
	}
	return seconds(board.Number(math.Round(float64(n))))
}
