package index_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/consumers/ui/index"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("seen")

// world is a made-up run on a real server and an index that follows it.
type world struct {
	*testing.T
	conn *bus.Conn
	x    *index.Index
}

func newWorld(t *testing.T, trajectories int, cfg index.Config) *world {
	w := &world{T: t, conn: natstest.Connect(t, natstest.InProcess(t))}
	if _, err := synth.Write(t.Context(), w.conn, synth.Options{Run: run, Trajectories: trajectories}); err != nil {
		t.Fatal(err)
	}
	cfg.Run = run
	w.x = index.New(cfg)
	return w
}

func (w *world) fetch(ctx context.Context, list []subjects.Address, fn func(int, *show.Body, error) error) error {
	return show.FetchAll(ctx, w.conn, run, bus.FetchConfig{}, list, fn)
}

// follow reads the streams to their end, and goes on until the test's end.
func (w *world) follow() {
	w.Helper()
	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(w.Context())
	go func() { ended <- w.x.Follow(ctx, w.conn, func() {}, func() { close(ready) }) }()
	w.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("following ended: %v", err)
		}
	})
	<-ready
}

// read signs every text there is.
func (w *world) read() {
	w.Helper()
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	go w.x.Read(ctx, w.fetch) //nolint:errcheck // until all is there
	for s := w.x.Stats(); s.Text < s.TextOf; s = w.x.Stats() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-w.Context().Done():
			w.Fatal("not all was read")
		}
	}
}

func (w *world) list(q index.Query) *index.Page {
	w.Helper()
	p, err := w.x.List(w.Context(), &q, w.fetch, 10*time.Second)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// truth finds the groups that have all the words, in their bodies.
func (w *world) truth(words ...string) map[string]bool {
	w.Helper()
	out := map[string]bool{}
	err := bus.FollowBundles(w.Context(), w.conn, run, 1, func(m *bus.Msg, b *bus.Bundle, err error) error {
		for i := range b.Items {
			t, err := subjects.DecodeTrajectory(b.Body(i))
			if err != nil {
				continue // a made-up run has a few that cannot be read
			}
			all := ""
			for _, m := range t.Messages {
				all += strings.ToLower(m.Content) + "\n"
			}
			has := true
			for _, word := range words {
				has = has && strings.Contains(all, word)
			}
			if has {
				out[string(t.Group)] = true
			}
		}
		if m.Pending == 0 {
			return errors.New("end")
		}
		return nil
	})
	if err == nil || err.Error() != "end" {
		w.Fatal(err)
	}
	return out
}

func TestSearch_FindsWhatIsThere(t *testing.T) {
	w := newWorld(t, 1500, index.Config{TextRate: 1 << 40})
	w.follow()
	if p := w.list(index.Query{Text: "goal"}); len(p.Groups) > 0 || p.Indexed.Text != 0 || p.Indexed.TextOf == 0 {
		t.Errorf("found %d groups before anything was read: %+v", len(p.Groups), p.Indexed)
	}
	w.read()
	word := w.word()
	want := w.truth(word)
	got, cursor := map[string]bool{}, ""
	for {
		p := w.list(index.Query{Text: word, Limit: 20, Cursor: cursor})
		for _, g := range p.Groups {
			if got[g.Group] {
				t.Errorf("%s comes twice", g.Group)
			}
			got[g.Group] = true
			if !strings.Contains(strings.ToLower(g.Match), word) {
				t.Errorf("%s: %q has no %q", g.Group, g.Match, word)
			}
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	for g := range want {
		if !got[g] {
			t.Errorf("%s has %q and is not found", g, word)
		}
	}
	if len(want) == 0 || len(got) != len(want) {
		t.Errorf("found %d groups with %q, there are %d", len(got), word, len(want))
	}
	if p := w.list(index.Query{Text: "xyzzyplugh"}); len(p.Groups) > 0 || p.Next != "" || p.Total == nil || *p.Total != 0 {
		t.Errorf("found what is not there: %+v", p)
	}
	if p := w.list(index.Query{Text: word, Kinds: []string{"eval"}}); len(p.Groups) > 0 && p.Groups[0].Kind != "eval" {
		t.Errorf("a filter does not count: %+v", p.Groups[0])
	}
}

// word is one that some of the texts have.
func (w *world) word() string {
	w.Helper()
	p := w.list(index.Query{Outcomes: []string{"kept"}, Limit: 1})
	_, members, _ := w.x.Group(p.Groups[0].Group)
	b, err := show.Fetch(w.Context(), w.conn, run, members[0].Address)
	if err != nil {
		w.Fatal(err)
	}
	longest := ""
	for _, m := range b.Trajectory.Messages {
		for _, f := range strings.FieldsFunc(strings.ToLower(m.Content), func(r rune) bool { return r < 'a' || r > 'z' }) {
			if len(f) > len(longest) {
				longest = f
			}
		}
	}
	return longest
}

func TestSearch_WithoutTimeGoesOnByItsCursor(t *testing.T) {
	w := newWorld(t, 600, index.Config{TextRate: 1 << 40})
	w.follow()
	w.read()
	word, pages, found, cursor := w.word(), 0, map[string]bool{}, ""
	for pages = 1; ; pages++ {
		p, err := w.x.List(t.Context(), &index.Query{Text: word, Limit: 500, Cursor: cursor}, w.fetch, time.Nanosecond)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Groups {
			found[g.Group] = true
		}
		if cursor = p.Next; cursor == "" || pages > 2 {
			break
		}
		if p.Total != nil {
			t.Error("a total of what was not looked at")
		}
	}
	if pages <= 2 {
		t.Errorf("ended after %d pages", pages)
	}
}

func TestIndex_PurgedPartsAreSaid(t *testing.T) {
	w := newWorld(t, 1000, index.Config{})
	state, err := bus.StreamState(t.Context(), w.conn, run, subjects.Rollouts)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Purge(t.Context(), w.conn, run, subjects.Rollouts, state.LastSeq/2); err != nil {
		t.Fatal(err)
	}
	w.follow()
	s := w.x.Stats()
	if s.Purged == 0 || s.Purged+s.TextOf != s.Trajectories || s.Trajectories < 900 {
		t.Errorf("stats %+v", s)
	}
	p := w.list(index.Query{Sort: "oldest", Outcomes: []string{"kept"}, Limit: 1})
	_, members, _ := w.x.Group(p.Groups[0].Group)
	if !members[0].Purged || !members[0].Used || members[0].Tokens == 0 {
		t.Errorf("a member whose body is gone: %+v", members[0])
	}
}
