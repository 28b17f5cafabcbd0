package app

import (
	"fmt"
	"html"
	"io"
	"math"
	"sort"
	"strings"
)

// Curve is the picture of a run: evaluation over steps beside its yardsticks.
type Curve struct {
	Title     string
	Steps     int64
	Training  []Point // mean reward of each step's batch
	Sampled   []Point // held-out, at the recipe's temperature
	Greedy    []Point // held-out, at temperature 0
	Yardstick map[string]float64
}

// Point is one value at one step.
type Point struct {
	Step  int64
	Value float64
}

// Size of the picture and of the plot in it, in pixels.
const (
	curveWidth, curveHeight         = 860, 450
	plotLeft, plotTop, plotW, plotH = 60, 48, 560, 310
	colourTrain, colourSampled      = "#9aa5b1", "#1f6feb"
	colourGreedy, colourYard        = "#c2571a", "#6b7280"
	labelGap                        = 14.0
)

// WriteSVG draws the curve as a picture that needs no script and no network.
func (c *Curve) WriteSVG(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="%s">`+"\n",
		curveWidth, curveHeight, curveWidth, curveHeight, html.EscapeString(c.Title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/><text x="%d" y="26" font-size="16" fill="#111827">%s</text>`+"\n", plotLeft, html.EscapeString(c.Title))
	c.axes(&b)
	c.yardsticks(&b)
	c.line(&b, c.Training, colourTrain, 1)
	c.line(&b, c.Sampled, colourSampled, 2.5)
	c.line(&b, c.Greedy, colourGreedy, 2.5)
	c.legend(&b)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Curve) x(step int64) float64 {
	return plotLeft + plotW*float64(step)/math.Max(1, float64(c.Steps))
}

func (c *Curve) y(v float64) float64 { return plotTop + plotH*(1-math.Min(1, math.Max(0, v))) }

func (c *Curve) axes(b *strings.Builder) {
	for i := 0; i <= 5; i++ {
		v := float64(i) / 5
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e5e7eb"/><text x="%d" y="%.1f" text-anchor="end" fill="#374151">%.1f</text>`+"\n",
			plotLeft, plotLeft+plotW, c.y(v), c.y(v), plotLeft-8, c.y(v)+4, v)
	}
	for _, step := range c.ticks() {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#374151">%d</text>`+"\n", c.x(step), plotTop+plotH+18, step)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#374151">optimizer step</text>`+"\n", plotLeft+plotW/2, plotTop+plotH+38)
	fmt.Fprintf(b, `<text x="16" y="%d" transform="rotate(-90 16 %d)" text-anchor="middle" fill="#374151">mean reward</text>`+"\n", plotTop+plotH/2, plotTop+plotH/2)
}

// mostTicks is how many labels fit under the plot.
const mostTicks = 11

// ticks are the steps to label: those of the evaluations, if they are few.
func (c *Curve) ticks() (steps []int64) {
	for _, p := range c.Sampled {
		steps = append(steps, p.Step)
	}
	if len(steps) > 1 && len(steps) <= mostTicks {
		return steps
	}
	steps = nil
	for i := range int64(5) {
		steps = append(steps, c.Steps*i/5)
	}
	return append(steps, c.Steps)
}

// yardsticks draws the reference players as dashed lines, their labels moved
// apart where they would overlap.
func (c *Curve) yardsticks(b *strings.Builder) {
	names := make([]string, 0, len(c.Yardstick))
	for n := range c.Yardstick {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return c.Yardstick[names[i]] > c.Yardstick[names[j]] })
	label := math.Inf(-1)
	for _, n := range names {
		v := c.Yardstick[n]
		label = math.Max(label+labelGap, c.y(v)+4)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="5 4"/><text x="%d" y="%.1f" fill="%s">%.3f %s</text>`+"\n",
			plotLeft, plotLeft+plotW, c.y(v), c.y(v), colourYard, plotLeft+plotW+8, label, colourYard, v, html.EscapeString(strings.ReplaceAll(n, "_", " ")))
	}
}

func (c *Curve) line(b *strings.Builder, points []Point, colour string, width float64) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="%.1f" points="`, colour, width)
	for _, p := range points {
		fmt.Fprintf(b, "%.1f,%.1f ", c.x(p.Step), c.y(p.Value))
	}
	b.WriteString(`"/>` + "\n")
	if width < 2 {
		return
	}
	for _, p := range points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>step %d: %.3f</title></circle>`+"\n", c.x(p.Step), c.y(p.Value), colour, p.Step, p.Value)
	}
}

func (c *Curve) legend(b *strings.Builder) {
	x, y := plotLeft, plotTop+plotH+62
	for _, l := range []struct {
		text, colour string
		width        int
	}{
		{"held out, sampled", colourSampled, 150}, {"held out, greedy", colourGreedy, 150}, {"training batches", colourTrain, 150},
	} {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d" fill="#111827">%s</text>`+"\n",
			x, y, l.colour, x+20, y+6, l.text)
		x += l.width
	}
}
