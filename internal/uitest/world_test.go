//go:build browser

package uitest

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// seen is the run that is walked through: made up, but with everything that runs
// have, on a real server.
const seen = subjects.Run("seen")

// world is a browser, and the pages of a made-up run to look at.
type world struct {
	browser   context.Context
	conn      *bus.Conn
	base, run string
}

// TestPages looks at one run through one browser, in every way that counts.
func TestPages(t *testing.T) {
	browser, end, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	w := world{browser: browser, conn: populated(t), run: string(seen)}
	w.base = w.serve(t, ui.Options{})
	for _, c := range []struct {
		name string
		test func(*testing.T, world)
	}{
		{"first paint is soon", firstPaint},
		{"what computes is right", pureParts},
		{"walked as a user nothing is amiss", walkedAsAUser},
		{"a long trajectory stays fluid", longTrajectory},
		{"hostile bytes are only shown", hostileBytes},
		{"behind a proxy and a token it is the same", behindAProxy},
		{"left open it neither grows nor misses anything", leftOpen},
		{"a hasty hand finds the first token", focusedAtOnce},
		{"a hidden tab hangs up and comes back", hiddenTab},
		{"address after address in one tab", addresses},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, w) })
	}
}

// populated is a bus with a made-up run that has everything.
func populated(t *testing.T) *bus.Conn {
	t.Helper()
	conn := natstest.Connect(t, natstest.InProcess(t))
	report, err := synth.Write(t.Context(), conn, synth.Options{Run: seen, Trajectories: 3000, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if report.Letters == 0 || len(report.Outcomes) < 3 || len(report.Statuses) < 4 {
		t.Fatalf("the made-up run is poor: %+v", report)
	}
	return conn
}

// serve serves the pages until the test ends, and gives their address.
func (w world) serve(t *testing.T, o ui.Options) string {
	t.Helper()
	o.Runs, o.Pieces, o.Version, o.Log = one{w.conn}, pieces, map[string]string{"version": "test"}, zerolog.Nop()
	s := ui.New(o)
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// one is a bus with one run.
type one struct{ conn *bus.Conn }

func (o one) List(context.Context) ([]ui.Listed, error) {
	steps := int64(12)
	return []ui.Listed{{Run: seen, Recipe: "synthetic", Created: board.Number(1.8e9), State: "live", Step: &steps, Reward: 0.5, Where: "nats://127.0.0.1:4222"}}, nil
}

func (o one) Open(context.Context, subjects.Run) (*ui.Opened, error) {
	return &ui.Opened{Conn: o.conn, Close: func() {}}, nil
}

func (one) Live(subjects.Run) bool    { return true }
func (one) Flags(subjects.Run) string { return "" }

// pieces is a vocabulary with everything that makes text hard to draw.
func pieces(*subjects.RunRecord, string) func(int32) string {
	words := []string{"The", " answer", " größe", "\n", " שלום", " عالم", "🙂", "<|im_end|>", "\t", "", " \u202eevil", "<b>", " x", "&amp;", "\x00",
		" 漢字", "\xe6", "\xbc\xa2", "👩\u200d👧", "\u200d", "\u0301", "한국"}
	return func(id int32) string { return words[int(id)%len(words)] }
}

// picture keeps what a page looked like where HEADRACE_UITEST_PICTURES says.
func picture(t *testing.T, tab *Tab, name string) {
	t.Helper()
	dir := os.Getenv("HEADRACE_UITEST_PICTURES")
	if dir == "" {
		return
	}
	png, err := tab.Picture()
	if err != nil {
		t.Log(err)
		return
	}
	path := filepath.Join(dir, strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()+"-"+name)+".png")
	if err := os.WriteFile(path, png, 0o600); err != nil {
		t.Log(err)
	}
}

// visit opens a tab at a path below the base address.
func visit(t *testing.T, w world, base, path string) *Tab {
	t.Helper()
	tab, end, err := NewTab(w.browser, base, Laptop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	if err := tab.Open(path); err != nil {
		t.Fatal(err)
	}
	return tab
}
