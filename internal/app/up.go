package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

// UpOptions are what `headrace up` is told.
type UpOptions struct {
	// Recipe is the recipe's file, or the folder that holds its recipe.yaml.
	Recipe string
	// Run names the run; empty: after the recipe, with the next free number.
	Run string
	// Root is the folder that run folders are in.
	Root string
	// Resume goes on with a run from its last checkpoint.
	Resume bool
	// Seed replaces the recipe's; nil keeps it.
	Seed *int64
	// Port the embedded server listens on, loopback only; 0: any free one.
	Port int
	// NoUI leaves the page out.
	NoUI bool
	// Python is the interpreter of trainer and engine; empty: see [findPython].
	Python string
	// Summary is the path, without extension, of a further copy of the summary.
	Summary string
	// Metrics is the address to serve the run's numbers on; empty: none.
	Metrics string
	// Began is when the user typed the command; zero: now.
	Began time.Time
	// Terminal, when set, shows a live view; otherwise progress is logged.
	Terminal io.Writer
	Log      zerolog.Logger
}

// ErrInterrupted is returned by Up after a drain that the user asked for.
var ErrInterrupted = errors.New("interrupted")

// up is one `headrace up`: every role of a run in one process.
type up struct {
	o      UpOptions
	log    zerolog.Logger
	recipe *recipe.Recipe
	run    subjects.Run
	dir    runDir
	python string
	view   *view
	board  *Board
	parts  *stack
	member *member
	// trained is closed when the trainer has ended by itself.
	trained chan struct{}
	// end is how the grouper says that the run ended, if not as it should.
	end atomic.Pointer[group.Ended]
	// made: the run's folder is new. entered: the run is on the bus.
	made, entered bool
}

// Up runs a recipe to its end and returns what came of it. When ctx ends it
// drains: episodes are handed back, the trainer saves a checkpoint, and the
// error is ErrInterrupted. A run that ended before it had done what it was for
// has a summary and an error that says why.
func Up(ctx context.Context, o UpOptions) (*Summary, error) {
	u := &up{o: o, log: o.Log, trained: make(chan struct{})}
	if u.o.Began.IsZero() {
		u.o.Began = time.Now()
	}
	defer u.discard()
	if err := u.prepare(ctx); err != nil {
		return nil, err
	}
	u.parts = newStack(u.log)
	defer u.parts.stop()
	if err := u.startBus(ctx); err != nil {
		return nil, err
	}
	if s, err := u.ended(ctx); s != nil || err != nil {
		return s, err
	}
	if !u.o.NoUI {
		u.startPage()
	}
	stopShowing := u.show()
	defer stopShowing()
	err := u.startRoles(ctx)
	if err == nil {
		err = u.wait(ctx)
	} else if ctx.Err() != nil {
		err = ErrInterrupted
	}
	u.parts.stop()
	stopShowing()
	return u.finish(err)
}

// prepare finds everything that can be found before anything is started.
func (u *up) prepare(ctx context.Context) (err error) {
	if u.recipe, err = loadRecipe(u.o.Recipe, u.o.Seed); err != nil {
		return err
	}
	if !u.o.Resume {
		if err := checkDataset(u.o.Recipe, u.recipe); err != nil {
			return err
		}
	}
	if u.python, err = findPython(ctx, u.o.Python); err != nil {
		return err
	}
	if u.run, u.dir, err = openRun(u.o.Root, u.recipe.Name, u.o.Run, u.o.Resume); err != nil {
		return err
	}
	u.made = !u.o.Resume
	if u.o.Terminal == nil {
		return nil
	}
	return u.openView()
}

// openView makes the live view. The log then goes to the run's folder, and
// only its warnings to the terminal, above the view.
func (u *up) openView() error {
	file, err := os.OpenFile(filepath.Join(u.dir.logs(), "headrace.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	u.view = &view{out: u.o.Terminal, title: "headrace " + string(u.run), hint: u.joinHint(), plain: os.Getenv("NO_COLOR") != ""}
	above := zerolog.ConsoleWriter{Out: u.view, TimeFormat: "15:04:05", NoColor: u.view.plain}
	u.log = u.o.Log.Output(zerolog.MultiLevelWriter(file, &zerolog.FilteredLevelWriter{Writer: zerolog.LevelWriterAdapter{Writer: above}, Level: zerolog.WarnLevel}))
	return nil
}

// joinHint is the command that a second producer joins with.
func (u *up) joinHint() string {
	credentials := u.dir.credentials()
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, credentials); err == nil && !strings.HasPrefix(rel, "..") {
			credentials = rel
		}
	}
	return fmt.Sprintf("%s produce --run %s --credentials %s", program(), u.run, credentials)
}

// program is what the user typed to start this one.
func program() string {
	if p := os.Args[0]; filepath.Base(p) == "headrace" {
		return p
	}
	return "headrace"
}

// startBus starts the embedded server, connects, and makes or checks the run.
func (u *up) startBus(ctx context.Context) error {
	server, err := bus.StartServer(ctx, bus.ServerOptions{
		StoreDir: u.dir.store(), Port: u.o.Port, Sync: u.recipe.Bus.Sync, CredentialsFile: u.dir.credentials(), Log: u.log,
	})
	if err != nil {
		return err
	}
	u.parts.start("server", func(ctx context.Context) error {
		defer server.Shutdown()
		select {
		case <-ctx.Done():
			return nil
		case <-server.Failed(): // a full disk, most of all
			u.parts.fail(server.Err())
			<-ctx.Done() // the others stop first, and need it to
			return nil
		}
	})
	options := server.Options()
	options.Name, options.Log = "headrace up "+string(u.run), u.log
	conn, err := bus.Connect(ctx, options)
	if err != nil {
		return err
	}
	u.parts.start("connection", func(ctx context.Context) error {
		<-ctx.Done()
		return conn.Close()
	})
	if err := u.enter(ctx, conn); err != nil {
		return err
	}
	u.board = NewBoard(u.o.Began, int64(u.member.recipe.Trainer.Steps))
	u.parts.start("board", func(ctx context.Context) error { return watch(ctx, conn, u.run, u.board) })
	if err := u.startMetrics(ctx, conn); err != nil {
		return err
	}
	u.log.Info().Str("run", string(u.run)).Str("folder", string(u.dir)).Str("bus", server.URL()).Str("join", u.joinHint()).Msg("run is up")
	return nil
}

// enter makes the run's streams and record, or, when resuming, takes the
// recipe from the record: a run never changes its rules half-way.
func (u *up) enter(ctx context.Context, conn *bus.Conn) error {
	options := u.recipe.StreamOptions()
	if u.o.Resume { // the limit is the run's, whatever the file says now
		options = subjects.StreamOptions{}
	}
	if err := bus.EnsureStreams(ctx, conn, u.run, options); err != nil {
		return err
	}
	if err := u.ensureRecord(ctx, conn); err != nil {
		return err
	}
	u.entered = true
	m, err := join(ctx, conn, u.run, u.log)
	u.member = m
	return err
}

// startPage serves the page on a free port of this machine, for as long as the run
// is up. A run is none the worse without it.
func (u *up) startPage() {
	p, err := newPage(Source{Root: filepath.Dir(string(u.dir)), Log: u.log}, &UIOptions{Listen: "127.0.0.1:0", Base: "/", Run: u.run, Log: u.log})
	if err != nil {
		u.log.Warn().Err(err).Msg("there is no page to look at")
		return
	}
	u.parts.start("page", func(ctx context.Context) error {
		defer p.close()
		return p.serve(ctx)
	})
	if u.view != nil { // the address has a token, and the log of a run has readers
		fmt.Fprintln(u.view, "look at it: "+p.address) //nolint:errcheck // a closed terminal
		return
	}
	u.log.Info().Str("url", p.address).Msg("look at it")
}

// show starts the live view or the progress log; the returned function ends
// it, once.
func (u *up) show() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if u.o.Terminal == nil {
			logProgress(ctx, u.board, u.log)
			return
		}
		u.view.board = u.board
		u.view.run(ctx)
	}()
	return func() { cancel(); <-done }
}

// startRoles starts every role, those that feed others first.
func (u *up) startRoles(ctx context.Context) error {
	m := u.member
	if err := m.writeModel(u.dir.model()); err != nil {
		return err
	}
	u.parts.start("grouper", func(ctx context.Context) error { return u.grouperEnded(m.group(ctx, "up")) })
	for i := range m.recipe.Engine.Count {
		if err := u.startEngine(i); err != nil {
			return err
		}
	}
	u.parts.start("bridge", func(ctx context.Context) error {
		return m.bridge(ctx, BridgeOptions{Listen: []string{"unix:" + u.dir.feed()}, Weights: u.dir.weights(), Checkpoints: u.dir.checkpoints(), Demos: u.dir.demos()})
	})
	if err := m.writeDemos(ctx, u.dir.demos()); err != nil {
		return err
	}
	u.startTrainer()
	u.parts.start("producer", func(ctx context.Context) error { return m.produce(ctx, ProduceOptions{Name: "local"}) })
	return nil
}

// childRestarts is how many deaths in a row of a Python process are answered.
const childRestarts = 5

func (u *up) child(name string, args ...string) *child {
	return &child{name: name, program: u.python, args: args, dir: u.dir.logs(), log: u.log, restarts: childRestarts,
		env: []string{"PYTHONUNBUFFERED=1"}}
}

func (u *up) startTrainer() {
	c := u.child("trainer", "-m", "headrace.trainer", "--feed", "unix:"+u.dir.feed(), "--checkpoints", u.dir.checkpoints(), "--exit-with-parent")
	u.parts.start("trainer", func(ctx context.Context) error {
		err := c.run(ctx)
		if err == nil {
			close(u.trained)
		}
		return err
	})
}

func (u *up) startEngine(i int) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("engine-%d", i)
	e := &u.member.recipe.Engine
	c := u.child(name, "-m", "headrace.engine", "--model-path", u.dir.model(), "--host", "127.0.0.1", "--port", fmt.Sprint(port),
		"--slots", fmt.Sprint(e.Slots), "--context", fmt.Sprint(u.member.recipe.Model.MaxContext), "--exit-with-parent")
	u.parts.start(name, c.run)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	u.parts.start(name+" sidecar", func(ctx context.Context) error {
		return u.member.engine(ctx, EngineOptions{Name: name, URL: url})
	})
	return nil
}

// wait returns nil when the run has ended, or why it stopped.
func (u *up) wait(ctx context.Context) error {
	select {
	case <-u.trained:
		return u.awaitEnd(ctx)
	case <-u.parts.failed:
		return u.parts.err
	case <-ctx.Done():
		u.say("stopping: the trainer saves a checkpoint, episodes are handed back (a second Ctrl-C kills)")
		return ErrInterrupted
	}
}

// endPatience is how long the last evaluation may take after the last step.
const endPatience = 5 * time.Minute

func (u *up) awaitEnd(ctx context.Context) error {
	deadline := time.After(endPatience)
	for u.board.State().End == "" && u.end.Load() == nil {
		select {
		case <-deadline:
			return errors.New("the trainer ended before the run did; its log is in " + u.dir.logs())
		case <-u.parts.failed:
			return u.parts.err
		case <-ctx.Done():
			return ErrInterrupted
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// finish writes the summary of a run that ended; otherwise it says how to go on.
func (u *up) finish(err error) (*Summary, error) {
	switch {
	case errors.Is(err, ErrInterrupted):
		return nil, fmt.Errorf("%w at step %d: go on with `%s`", err, u.board.steps(), u.again())
	case err != nil:
		return nil, fmt.Errorf("%w (the run is kept: go on with `%s`)", err, u.again())
	}
	state := u.board.State()
	s := summarize(&state, u.o.Began, time.Now())
	s.Run, s.Recipe, s.Seed = string(u.run), u.recipe.Name, u.member.recipe.Seed
	s.Yardsticks, err = u.member.yardsticks()
	if err != nil {
		return nil, err
	}
	for _, base := range []string{u.dir.path("summary"), u.o.Summary} {
		if base == "" {
			continue
		}
		if err := s.save(base); err != nil {
			return nil, err
		}
	}
	return &s, u.ending(&state)
}

// say tells the user something, above the live view if there is one.
func (u *up) say(text string) {
	u.log.Info().Msg(text)
	if u.view != nil {
		fmt.Fprintln(u.view, text) //nolint:errcheck // a closed terminal
	}
}

// again is the command that goes on with the run.
func (u *up) again() string {
	c := fmt.Sprintf("%s up %s --run %s --resume", program(), u.o.Recipe, u.run)
	if u.o.Root != DefaultRoot {
		c += " --dir " + u.o.Root
	}
	if u.o.Python != "" {
		c += " --python " + u.o.Python
	}
	return c
}

func (b *Board) steps() int64 {
	s := b.State()
	return s.Committed()
}

// loadRecipe reads a recipe from its file or folder.
func loadRecipe(path string, seed *int64) (*recipe.Recipe, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path += "/recipe.yaml"
	}
	return recipe.LoadSeed(path, seed)
}
