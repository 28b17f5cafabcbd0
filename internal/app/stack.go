package app

import (
	"context"
	"fmt"
	"sync"

	"github.com/rs/zerolog"
)

// stack runs the parts of a program that start in one order and stop in the
// other. A part that fails ends the program; one that returns nil has simply
// finished.
type stack struct {
	log   zerolog.Logger
	parts []*part

	once   sync.Once
	failed chan struct{} // closed at the first failure
	err    error         // of it; read after failed is closed
}

// part is one goroutine of the stack.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when it returned
}

func newStack(log zerolog.Logger) *stack { return &stack{log: log, failed: make(chan struct{})} }

// start runs a part until it returns or is stopped. Its context is its own:
// it ends when its turn to stop has come, not when the user asks.
func (s *stack) start(name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		err := run(ctx)
		if err != nil && ctx.Err() == nil {
			s.fail(fmt.Errorf("%s: %w", name, err))
		}
	}()
	return p
}

func (s *stack) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.failed)
	})
}

// stop ends every part, the last started first, each before the next.
func (s *stack) stop() {
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		s.log.Debug().Str("part", p.name).Msg("stopping")
		p.cancel()
		<-p.done
	}
	s.parts = nil
}
