package app

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/headrace/headrace/consumers/advise"
	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/board/tap"
	"github.com/headrace/headrace/consumers/top"
	"github.com/headrace/headrace/subjects"
)

// TopOptions are those of `headrace top`.
type TopOptions struct {
	Out        io.Writer
	Every      time.Duration // 0: 1s on a terminal, else 10s
	Once, JSON bool
	Plain      bool // no colour: NO_COLOR
}

// Top shows a run live, as numbers in a terminal, until it ends, the user quits
// or ctx ends.
func Top(ctx context.Context, s Source, run subjects.Run, o TopOptions) error {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return err
	}
	defer done()
	b := board.New(board.Config{Run: run, Advise: advise.Rules})
	show := top.Options{Board: b, Out: o.Out, Every: o.Every, Once: o.Once, JSON: o.JSON, Colour: !o.Plain}
	if !s.Remote { // the run's server goes with its last role
		show.Stopped = func(s *board.State) bool { return !s.Live && !starting(s) }
	}
	if o.Once {
		if f, ok := o.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			show.Width, _, _ = term.GetSize(int(f.Fd()))
		}
		show.Colour = show.Colour && show.Width > 0
		if err := tap.Read(ctx, conn, run, b); err != nil {
			return err
		}
		return top.Show(ctx, show)
	}
	return follow(ctx, show, func(ctx context.Context, caughtUp func()) error { return tap.Follow(ctx, conn, run, b, caughtUp) })
}

// startSeconds is how long the roles of a run may take until they are heard of.
const startSeconds = 60

// starting reports whether a run is so young that nobody was heard of yet.
func starting(s *board.State) bool {
	return len(s.Roles) == 0 && s.Step.Cut == 0 && s.End == "" && s.Now-s.Started < startSeconds
}

// follow shows a board while it is fed.
func follow(ctx context.Context, show top.Options, feed func(ctx context.Context, caughtUp func()) error) error {
	if !show.JSON {
		t, restore := openTerminal(show.Out)
		defer restore()
		if t != nil {
			show.Terminal = t
		}
	}
	ready := make(chan struct{})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return feed(ctx, func() { close(ready) }) })
	g.Go(func() error {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := top.Show(ctx, show); err != nil {
			return err
		}
		return top.ErrQuit // ends the feed
	})
	if err := g.Wait(); !errors.Is(err, top.ErrQuit) {
		return err
	}
	return nil
}

// tty is a terminal whose keys come as they are typed.
type tty struct {
	*os.File
	keys chan byte
}

// openTerminal is the terminal that is written to, with the keyboard of this
// process where it has one; nil if there is none.
func openTerminal(out io.Writer) (t *tty, restore func()) {
	restore = func() {}
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, restore
	}
	t = &tty{f, make(chan byte)}
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		close(t.keys)
		return t, restore
	}
	before, err := term.MakeRaw(in)
	if err != nil {
		close(t.keys)
		return t, restore
	}
	go t.read()                                   // ends with the process: a read of a terminal cannot be called off
	return t, func() { term.Restore(in, before) } //nolint:errcheck // the terminal is gone
}

func (t *tty) read() {
	defer close(t.keys)
	b := make([]byte, 1)
	for {
		if n, err := os.Stdin.Read(b); err != nil || n == 0 {
			return
		}
		t.keys <- b[0]
	}
}

// Keys implements [top.Terminal].
func (t *tty) Keys() <-chan byte { return t.keys }

// Size implements [top.Terminal].
func (t *tty) Size() (width, height int) {
	width, height, err := term.GetSize(int(t.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// adviceLine is the adviser's first sentence; empty while there is none.
func adviceLine(s *BoardState) string {
	if s.Stall != nil || len(s.Advice) == 0 || s.Advice[0].Code == advise.NotEnoughData {
		return ""
	}
	return s.Advice[0].Text
}
