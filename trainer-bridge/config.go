package trainerbridge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// Config configures [Run].
type Config struct {
	// Conn is the bus; Run whose batches are fed. Required.
	Conn *bus.Conn
	Run  subjects.Run
	// Listen are the addresses to serve: "unix:/path", "tcp:host:port"; port 0
	// is any free one. Required.
	Listen []string
	// Layout is how batches are laid out.
	Layout layout.Config
	// Vocab is the number of token ids; a trajectory with others is
	// dead-lettered. 0 means not checked.
	Vocab int
	// Trainer and Model are those sections of the recipe, JSON objects that the
	// trainer is given as they are.
	Trainer, Model json.RawMessage
	// Paths are told to the trainer too. Weights also resolves relative folders
	// of published weights.
	Paths feed.Paths
	// MaxSteps is the last step to feed; 0 means the ledger decides.
	MaxSteps subjects.Step
	// Token, when set, is what a trainer that comes over TCP must show.
	Token string
	// Inspect runs the inspector: exactly one bridge of a run should.
	Inspect bool
	// Leased says that trajectories carry the tokens of their leases, as they do
	// unless groups come from outside: the inspector passes over those without.
	Leased bool
	// MaxSegments is the most segments of a trajectory that a batch is sure to
	// have rows for; one with more is dead-lettered. 0: Layout.MaxRows.
	MaxSegments int
	// Retention says what of ROLLOUTS may be purged; exactly one bridge of a run
	// should have one.
	Retention Retention
	// CacheBytes bounds the bodies kept in memory. Default 512 MiB.
	CacheBytes int
	// DrainTimeout is how long a trainer may take to checkpoint and say
	// goodbye once Run's context has ended. Default 30 s.
	DrainTimeout time.Duration
	// Instance names this bridge on TELEMETRY. Default: host and process.
	Instance string
	Log      zerolog.Logger
	// OnEvent, when set, is told what happens, from many goroutines; it must
	// not block.
	OnEvent func(Event)
	// OnListen, when set, is told the addresses once they accept trainers.
	OnListen func(addresses []string)

	takeover     time.Duration // see claim
	janitorEvery time.Duration // how often ROLLOUTS is looked at
	stallEvery   time.Duration // how often a waiting trainer is told what it waits for
	silence      time.Duration // of every grouper, before that is what it waits for
}

const (
	defaultCacheBytes   = 512 << 20
	defaultDrainTimeout = 30 * time.Second
	defaultStallEvery   = 15 * time.Second
	defaultSilence      = 15 * time.Second
)

func (c Config) withDefaults() Config {
	c.Layout = c.Layout.WithDefaults()
	c.CacheBytes = cmp.Or(c.CacheBytes, defaultCacheBytes)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.takeover = cmp.Or(c.takeover, defaultTakeover)
	c.janitorEvery = cmp.Or(c.janitorEvery, defaultJanitorEvery)
	c.stallEvery = cmp.Or(c.stallEvery, defaultStallEvery)
	c.silence = cmp.Or(c.silence, defaultSilence)
	if c.Instance == "" {
		c.Instance = instance()
	}
	if len(c.Trainer) == 0 {
		c.Trainer = json.RawMessage("{}")
	}
	if len(c.Model) == 0 {
		c.Model = json.RawMessage("{}")
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	return c
}

func instance() string {
	host, _ := os.Hostname()
	clean := strings.Map(func(r rune) rune {
		if r < 128 && subjects.ValidToken(string(r)) {
			return r
		}
		return '-'
	}, cmp.Or(host, "host"))
	return fmt.Sprintf("%.40s-%d", clean, os.Getpid())
}

func (c *Config) validate() error {
	if c.Conn == nil || len(c.Listen) == 0 {
		return errors.New("bridge needs a connection and an address to listen on")
	}
	if !json.Valid(c.Trainer) || !json.Valid(c.Model) {
		return errors.New("trainer and model sections must be JSON")
	}
	return cmp.Or(c.Run.Validate(), c.guarded(), c.Layout.Validate())
}

// guarded refuses to feed whoever can reach a port: off this machine, a
// trainer must show a token.
func (c *Config) guarded() error {
	for _, address := range c.Listen {
		hostPort, ok := strings.CutPrefix(address, "tcp:")
		if !ok || c.Token != "" {
			continue
		}
		host, _, err := net.SplitHostPort(hostPort)
		if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("listen on %s: other hosts reach it, so a trainer must show a token: set HEADRACE_FEED_TOKEN, or listen on 127.0.0.1", address)
		}
	}
	return nil
}

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	Connected    EventKind = "connected"    // a trainer opened a feed; Step is what its checkpoint holds
	Disconnected EventKind = "disconnected" // it is gone; Text says why
	Delivered    EventKind = "delivered"    // it got the batch of Step
	Committed    EventKind = "committed"    // it applied Step
	Checkpointed EventKind = "checkpointed" // its checkpoint covers Step
	Published    EventKind = "published"    // weights of version Step are announced
	Noticed      EventKind = "noticed"      // a remark of the trainer, in Notice
	Stalled      EventKind = "stalled"      // it waits for Step; Text says for what
	Rejected     EventKind = "rejected"     // a trajectory was dead-lettered; Text says why
)

// Event is something that happened in the bridge.
type Event struct {
	Kind        EventKind
	Step        subjects.Step
	Incarnation int
	Text        string
	// Wait is how long the trainer had waited for a delivered batch.
	Wait time.Duration
	// Commit of a Committed event, Notice of a Noticed one.
	Commit *subjects.CommitEvent
	Notice *feed.Notice
}

// BodyError is a trajectory of a batch that the log does not give any more: the
// run cannot go on at this step.
type BodyError struct {
	Step   subjects.Step
	Seq    uint64 // in ROLLOUTS
	Index  int    // in its bundle
	Reason error
}

func (e *BodyError) Error() string {
	return fmt.Sprintf("batch of step %d: trajectory %d of rollouts message %d: %v", e.Step, e.Index, e.Seq, e.Reason)
}

// Unwrap gives the reason.
func (e *BodyError) Unwrap() error { return e.Reason }
