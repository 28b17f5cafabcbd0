package top

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headrace/headrace/consumers/board"
)

// Options are how a run is shown.
type Options struct {
	Board *board.Board
	Out   io.Writer
	// Terminal is where the picture is drawn in place; nil: Out is none, and gets a line now and then.
	Terminal Terminal
	// Every is how often there is something new. Default 1s on a terminal, else 10s.
	Every time.Duration
	// Once shows the run as it is and ends. JSON shows states, one a line.
	Once, JSON bool
	// Stopped reports whether nobody will go on with the run: it is shown once more, and that is all.
	Stopped func(*board.State) bool
	// Width of what is shown once, columns; 0: 100.
	Width int
	// Colour, on a terminal and of what is shown once.
	Colour bool
}

// Terminal is a screen and its keyboard. Its methods are called by one
// goroutine, but for Keys, whose channel another one fills.
type Terminal interface {
	io.Writer
	// Size in columns and lines; 0: unknown.
	Size() (width, height int)
	// Keys are the bytes typed. It is closed when there will be none.
	Keys() <-chan byte
}

// ErrQuit is returned when the user had enough.
var ErrQuit = errors.New("quit")

func (o *Options) withDefaults() {
	switch {
	case o.Every > 0:
	case o.Terminal != nil:
		o.Every = time.Second
	default:
		o.Every = 10 * time.Second
	}
}

const defaultWidth = 100

// Show shows the board until its run ends, ctx ends or the user quits. The
// board is somebody else's to fill.
func Show(ctx context.Context, o Options) error {
	o.withDefaults()
	d := drawing{o: o}
	var keys <-chan byte
	if o.Terminal != nil {
		keys = o.Terminal.Keys()
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		s := o.Board.State(time.Now())
		last := o.Once || s.End != "" || o.Stopped != nil && o.Stopped(&s)
		if err := d.show(&s); err != nil || last {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
				waiting = false
			case key, ok := <-keys:
				if !ok {
					keys = nil
				} else if quits(key) {
					return ErrQuit
				} else {
					waiting = false // redrawn: a screen that something else wrote to is put right
				}
			}
		}
	}
}

const controlC, controlD = 3, 4

func quits(key byte) bool { return key == 'q' || key == 'Q' || key == controlC || key == controlD }

// drawing puts pictures out.
type drawing struct {
	o     Options
	drawn []int // how wide each line of the last picture was
}

func (d *drawing) show(s *board.State) error {
	steps := d.o.Board.Steps(0)
	p := Picture{s, &steps}
	var err error
	switch {
	case d.o.JSON:
		err = json.NewEncoder(d.o.Out).Encode(s)
	case d.o.Terminal != nil:
		err = d.redraw(p)
	case d.o.Once:
		for _, l := range Render(p, Screen{Width: cmp.Or(d.o.Width, defaultWidth), Colour: d.o.Colour}) {
			if _, err = fmt.Fprintln(d.o.Out, l); err != nil {
				break
			}
		}
	default:
		_, err = fmt.Fprintln(d.o.Out, Line(p))
	}
	return err
}

// redraw puts the picture over the last one. What it wrote wraps on a terminal
// that became narrower since: then a line is several.
func (d *drawing) redraw(p Picture) error {
	columns, lines := d.o.Terminal.Size()
	if columns <= 0 {
		columns = defaultWidth
	}
	up := 0
	for _, n := range d.drawn {
		up += 1 + max(n-1, 0)/columns
	}
	if lines > 0 {
		up = min(up, lines-1)
	}
	text := "\r"
	if up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	d.drawn = d.drawn[:0]
	for _, l := range Render(p, Screen{Width: columns - 1, Height: max(lines-1, 0), Colour: d.o.Colour}) {
		text += l + "\x1b[K\r\n"
		d.drawn = append(d.drawn, visible(l))
	}
	_, err := io.WriteString(d.o.Terminal, text+"\x1b[J")
	return err
}

// visible is how wide a rendered line is.
func visible(s string) (n int) {
	escape := false
	for _, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n += columns(r)
		}
	}
	return n
}
