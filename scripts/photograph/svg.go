package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// Size of a character of the picture, and its margins, in pixels.
const (
	charWidth, lineHeight = 7.8, 17.0
	margin, titleHeight   = 14.0, 30.0
)

// inks are the terminal's sixteen colours, on a dark ground, and its two plain ones.
var inks = [16]string{"#5c6773", "#ff8b82", "#5fc492", "#e0ab4f", "#7db2ff", "#c39bf5", "#4fc3ad", "#d7dde4",
	"#8390a0", "#ffa8a1", "#8ee0b5", "#f0c987", "#a8ccff", "#d9bffb", "#86dccb", "#ffffff"}

const ground, plain = "#101317", "#d7dde4"

// paint takes the numbers of a colour sequence.
func (s *screen) paint(list []int) {
	for i := 0; i < len(list); i++ {
		switch n := list[i]; {
		case n == 0:
			s.look = cell{}
		case n == 1:
			s.look.bold = true
		case n == 2:
			s.look.dim = true
		case n == 7:
			s.look.flip = true
		case n == 22:
			s.look.bold, s.look.dim = false, false
		case n == 27:
			s.look.flip = false
		case n >= 30 && n <= 37:
			s.look.ink = inks[n-30]
		case n >= 90 && n <= 97:
			s.look.ink = inks[n-90+8]
		case n == 39:
			s.look.ink = ""
		case n == 38 && i+2 < len(list) && list[i+1] == 5:
			s.look.ink = indexed(list[i+2])
			i += 2
		case n == 38 && i+4 < len(list) && list[i+1] == 2:
			s.look.ink = fmt.Sprintf("#%02x%02x%02x", list[i+2]&255, list[i+3]&255, list[i+4]&255)
			i += 4
		case n == 48 && i+2 < len(list) && list[i+1] == 5:
			i += 2
		case n == 48 && i+4 < len(list) && list[i+1] == 2:
			i += 4
		}
	}
}

// indexed is a colour of the 256: sixteen named ones, a cube, and greys.
func indexed(n int) string {
	switch {
	case n < 16:
		return inks[n&15]
	case n >= 232:
		v := 8 + 10*(n-232)
		return fmt.Sprintf("#%02x%02x%02x", v, v, v)
	}
	level := func(v int) int { return []int{0, 95, 135, 175, 215, 255}[v%6] }
	n -= 16
	return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6), level(n))
}

// draw makes a picture that shows one frame after the other, again and again.
func draw(list []frame, seconds float64, command string) []byte {
	list = sparse(list)
	wide, high := 2*margin+termColumns*charWidth, titleHeight+2*margin+float64(tallest(list))*lineHeight
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" role="img" aria-label="%s, in a terminal">`+"\n",
		wide, high, wide, high, html.EscapeString(command))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/><circle cx="18" cy="17" r="5" fill="#3a434e"/><circle cx="36" cy="17" r="5" fill="#3a434e"/><circle cx="54" cy="17" r="5" fill="#3a434e"/>`+"\n", ground)
	fmt.Fprintf(&b, `<text x="76" y="21" fill="#98a3b0" font-size="12">$ %s</text>`+"\n", html.EscapeString(command))
	total := max(seconds, list[len(list)-1].at+1)
	for i, f := range list {
		until := total
		if i+1 < len(list) {
			until = list[i+1].at
		}
		show(&b, f, i, until, total, len(list) == 1)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// show writes a frame. The last one is what is seen where nothing may move.
func show(b *bytes.Buffer, f frame, i int, until, total float64, alone bool) {
	from, to := f.at/total, until/total
	if i == 0 {
		from = 0
	}
	if alone {
		b.WriteString("<g>\n")
	} else {
		begin, shown := "none", "inline"
		values, times := fmt.Sprintf("%s;%s;%s", begin, shown, begin), fmt.Sprintf("0;%.4f;%.4f", from, min(to, 1))
		if from == 0 {
			values, times = "inline;none", fmt.Sprintf("0;%.4f", to)
		}
		still := "none"
		if to >= 1 {
			still = "inline"
			values, times = "none;inline", fmt.Sprintf("0;%.4f", from)
		}
		fmt.Fprintf(b, `<g display="%s"><animate attributeName="display" dur="%.2fs" repeatCount="indefinite" calcMode="discrete" values="%s" keyTimes="%s"/>`+"\n", still, total, values, times)
	}
	for row, line := range f.screen.cells {
		if text := spans(line); text != "" {
			fmt.Fprintf(b, `<text x="%.0f" y="%.0f" fill="%s" xml:space="preserve">%s</text>`+"\n", margin, titleHeight+margin+float64(row+1)*lineHeight-4, plain, text)
		}
	}
	b.WriteString("</g>\n")
}

// spans joins the cells of a line that look alike. Each run says where it starts,
// so that a font whose width is another moves nothing out of its column.
func spans(line []cell) string {
	end := len(line)
	for end > 0 && line[end-1].r <= ' ' {
		end--
	}
	var b strings.Builder
	for i := 0; i < end; {
		j := i
		var text strings.Builder
		for j < end && alike(line[i], line[j]) {
			text.WriteRune(max(line[j].r, ' '))
			j++
		}
		if s := text.String(); strings.TrimSpace(s) != "" {
			fmt.Fprintf(&b, `<tspan x="%.1f"%s>%s</tspan>`, margin+float64(i)*charWidth, style(line[i]), html.EscapeString(s))
		}
		i = j
	}
	return b.String()
}

func alike(a, b cell) bool {
	return a.ink == b.ink && a.bold == b.bold && a.dim == b.dim && a.flip == b.flip
}

func style(c cell) string {
	out := ""
	if c.ink != "" {
		out = fmt.Sprintf(` fill="%s"`, c.ink)
	}
	if c.bold {
		out += ` font-weight="700"`
	}
	if c.dim {
		out += ` opacity="0.65"`
	}
	return out
}

// sparse keeps one frame a second: more would only make the picture heavy.
func sparse(list []frame) []frame {
	var out []frame
	for _, f := range list {
		if len(out) > 0 && f.at-out[len(out)-1].at < 0.9 {
			f.at = out[len(out)-1].at
			out[len(out)-1] = f
			continue
		}
		out = append(out, f)
	}
	return out
}

func tallest(list []frame) int {
	most := 1
	for _, f := range list {
		for row, line := range f.screen.cells {
			if spans(line) != "" {
				most = max(most, row+1)
			}
		}
	}
	return most
}
