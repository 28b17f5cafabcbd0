package ui

import (
	"context"
	"embed"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

//go:embed all:web
var embedded embed.FS

// Listed is a run in the list of runs; what is not known is null.
type Listed struct {
	Run      subjects.Run `json:"run"`
	Recipe   string       `json:"recipe"`
	Created  board.Number `json:"created"` // Unix seconds
	State    string       `json:"state"`   // live, ended or stopped
	End      string       `json:"end"`
	Step     *int64       `json:"step"`
	MaxSteps *int64       `json:"max_steps"`
	Reward   board.Number `json:"reward"`
	Where    string       `json:"where"`
	Bytes    *int64       `json:"bytes"`
}

// Opened is a run that can be read.
type Opened struct {
	Conn  *bus.Conn
	Close func()
	// Stopped: nobody plays it and its store is served for this reader alone. It
	// is given back soon, since who goes on with the run needs it.
	Stopped bool
	// Local: the bus is the run's own and ends with it.
	Local bool
	// Profiles is the folder of the trainer's JAX profiles, which traces take in;
	// empty where it is not on this machine.
	Profiles string
}

// Runs is where runs are. It may be asked by many goroutines.
type Runs interface {
	// List is what there is.
	List(ctx context.Context) ([]Listed, error)
	// Open connects to the bus that has the run.
	Open(ctx context.Context, run subjects.Run) (*Opened, error)
	// Live reports whether a run that was stopped is played again. It is cheap.
	Live(run subjects.Run) bool
	// Flags are what a command needs to find the run, as in " --dir runs".
	Flags(run subjects.Run) string
}

// Options configure a [Server].
type Options struct {
	Runs Runs
	// Token is asked of every request; empty: of none.
	Token string
	// Base is the path that everything is under. Default "/".
	Base string
	// Hosts are the names by which a browser may call it, without port: a page of
	// another name that leads here is refused. Empty: any.
	Hosts []string
	// Version is the answer of api/version.
	Version any
	// Pieces gives the text of each token of a vocabulary; nil where it is unknown.
	Pieces func(r *subjects.RunRecord, tokenizer string) func(id int32) string
	// Board is what boards are made with: the adviser.
	Board board.Config
	// Idle is how long a run stays open after the last request. Default a minute;
	// IdleStopped is that of a run that is stopped, default 10 s.
	Idle, IdleStopped time.Duration
	// MostRuns bounds the runs that are held in memory, MostBytes what they take
	// there together, about; the one that is looked at has its place in any case.
	// Default 4 and 180 MiB.
	MostRuns, MostBytes int
	// Files are the page; default those that are built in.
	Files fs.FS
	Log   zerolog.Logger
}

func (o *Options) withDefaults() {
	if o.Base = "/" + trimSlashes(o.Base) + "/"; o.Base == "//" {
		o.Base = "/"
	}
	if o.Idle <= 0 {
		o.Idle = time.Minute
	}
	if o.IdleStopped <= 0 {
		o.IdleStopped = 10 * time.Second
	}
	if o.MostRuns <= 0 {
		o.MostRuns = 4
	}
	if o.MostBytes <= 0 {
		o.MostBytes = 180 << 20
	}
	if o.Files == nil {
		o.Files, _ = fs.Sub(embedded, "web") // it is there
	}
}

// Server answers browsers. Close it.
type Server struct {
	o     Options
	mux   *http.ServeMux
	files static
	heavy chan struct{} // of requests that read many bodies
	trace chan struct{} // of those that draw one

	ctx  context.Context // of everything that outlives a request
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	runs    map[subjects.Run]*watched
	clients int // that listen to events
}

// Bounds on what is done at once.
const (
	mostClients = 64
	mostHeavy   = 2
	mostTraces  = 1
)

// New starts a server; it listens nowhere.
func New(o Options) *Server {
	o.withDefaults()
	s := &Server{o: o, mux: http.NewServeMux(), runs: map[subjects.Run]*watched{}, heavy: make(chan struct{}, mostHeavy), trace: make(chan struct{}, mostTraces)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.files = newStatic(o.Files, o.Base)
	s.routes()
	s.wg.Go(s.janitor)
	return s
}

// Close tells the browsers goodbye, and closes what is open.
func (s *Server) Close() {
	s.stop()
	s.wg.Wait()
	s.mu.Lock()
	runs := s.runs
	s.runs = map[subjects.Run]*watched{}
	s.mu.Unlock()
	for _, w := range runs {
		w.shut()
	}
}

func (s *Server) routes() {
	api := func(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
		s.mux.HandleFunc("GET "+s.o.Base+"api/"+pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	api("version", func(w http.ResponseWriter, r *http.Request) error { return answer(w, r, s.o.Version) })
	api("runs", s.list)
	api("runs/{run}", s.state)
	api("runs/{run}/steps", s.steps)
	api("runs/{run}/series", s.series)
	api("runs/{run}/events", s.events)
	api("runs/{run}/groups", s.groups)
	api("runs/{run}/groups/{group}", s.group)
	api("runs/{run}/trajectories/{group}/{slot}/{attempt}", s.trajectory)
	api("runs/{run}/deadletters", s.letters)
	api("runs/{run}/deadletters/{number}", s.letter)
	api("runs/{run}/trace", s.draw)
	api("", func(http.ResponseWriter, *http.Request) error { return errNoPage })
	s.mux.HandleFunc("GET "+s.o.Base, s.files.serve)
}

// ServeHTTP answers a request, if it comes from who may ask.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, http.StatusMethodNotAllowed, "only looked at here: ask with GET")
	case !s.hosted(r):
		refuse(w, r, http.StatusForbidden, "this server is not called "+hostOf(r)+": start it with --host "+hostOf(r)+" if it is to be")
	case s.admit(w, r):
		s.mux.ServeHTTP(w, r)
	}
}
