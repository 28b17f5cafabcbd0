package bus

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rs/zerolog"
)

// serverLog passes the embedded server's log on and notices what ends it: the
// server reports a taken port or a full disk nowhere else.
type serverLog struct {
	log    zerolog.Logger
	failed chan struct{}
	mu     sync.Mutex
	why    string
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }

// Warnf leaves out what cannot be helped: the password is random, made at each
// start and never stored by the server.
func (l *serverLog) Warnf(format string, v ...any) {
	if !strings.HasPrefix(format, "Plaintext passwords") {
		l.log.Warn().Msgf("nats server: "+format, v...)
	}
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(text, "no space left") || strings.Contains(text, "will be DISABLED") {
		l.fail(text)
	}
	l.log.Error().Msg("nats server: " + text)
}

// Fatalf does not end the process, unlike the server's own log.
func (l *serverLog) Fatalf(format string, v ...any) { l.fail(fmt.Sprintf(format, v...)) }

func (l *serverLog) fail(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		l.why = why
		close(l.failed)
	}
}

func (l *serverLog) fault() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// startError gives what the server said its type and one line of advice.
func (s *Server) startError(fault string) error {
	switch {
	case strings.Contains(fault, "address already in use"):
		return fmt.Errorf("%w: %s:%d: stop what listens there, or use port 0 for any free one", ErrPortInUse, s.opts.Host, s.opts.Port)
	case strings.Contains(fault, "no space left"), strings.Contains(fault, "out of space"), strings.Contains(fault, "out of resources"):
		return fmt.Errorf("%w: %s: free some space, then start again with --resume", ErrDiskFull, s.opts.StoreDir)
	case strings.Contains(fault, "Error listening"):
		return fmt.Errorf("listen on %s:%d: %s", s.opts.Host, s.opts.Port, fault)
	}
	return fmt.Errorf("%w: %s: %s; move this folder away, or use another one", ErrStore, s.opts.StoreDir, fault)
}
