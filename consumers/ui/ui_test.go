package ui_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

var page = fstest.MapFS{
	"index.html":  {Data: []byte(`<!doctype html><base href="/"><title>x</title>`)},
	"app.js":      {Data: bytes.Repeat([]byte("const x = 1;\n"), 500)},
	"lib/a.js":    {Data: []byte("export {}")},
	"vendor/m.js": {Data: []byte("export {}")},
}

func TestServer_LetsInWhoHasTheToken(t *testing.T) {
	w := newWorld(t, 0, ui.Options{Token: token, Base: "/x/", Hosts: []string{"127.0.0.1"}, Files: page, Version: map[string]string{"version": "1"}}, &place{})
	for _, c := range []struct {
		path    string
		headers []string
		status  int
		has     string
	}{
		{"/x/api/version", nil, 200, `"version"`},
		{"/x/api/version", []string{"Authorization", "Bearer wrong"}, 401, "open the address"},
		{"/x/api/version", []string{"Authorization", ""}, 401, "open the address"},
		{"/x/", []string{"Authorization", "", "Accept", "text/html"}, 401, "open the address"},
		{"/x/?token=wrong", []string{"Authorization", ""}, 401, "open the address"},
		{"/x/api/version", []string{"Host", "evil.example:80"}, 403, "not called evil.example"},
		{"/x/api/version", []string{"Host", "127.0.0.1:1"}, 200, "version"},
		{"/x/api/nothing", nil, 404, "no such page"},
		{"/x/api/runs/nowhere", nil, 404, "no run nowhere"},
		{"/x/api/runs/UPPER", nil, 404, "run name"},
		{"/x/r/seen/groups?kind=train", nil, 200, `<base href="/x/">`},
		{"/x/app.js", nil, 200, "const x"},
		{"/x/lib/no.js", nil, 404, "no file"},
		{"/elsewhere", nil, 404, ""},
	} {
		resp, body := w.ask(c.path, c.headers...)
		if resp.StatusCode != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s %v: %s: %.200s; want %d and %q", c.path, c.headers, resp.Status, body, c.status, c.has)
		}
		for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"} {
			if resp.Header.Get(h) == "" {
				t.Errorf("%s: no %s", c.path, h)
			}
		}
	}
	resp, _ := w.ask("/x/r/seen?q=1&token="+token, "Authorization", "")
	cookies := resp.Cookies()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/x/r/seen?q=1" || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("the token in the address: %s to %s with %v", resp.Status, resp.Header.Get("Location"), cookies)
	}
	if resp, body := w.ask("/x/api/version", "Authorization", "", "Cookie", cookies[0].Name+"="+cookies[0].Value); resp.StatusCode != 200 {
		t.Errorf("with the cookie: %s: %s", resp.Status, body)
	}
	if resp, _ := w.ask("//evil.example/?token="+url.QueryEscape(token), "Authorization", ""); strings.HasPrefix(resp.Header.Get("Location"), "//") {
		t.Errorf("sent to another host: %s", resp.Header.Get("Location"))
	}
	post, err := http.Post(w.http.URL+"/x/api/runs", "application/json", nil)
	if err != nil || post.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", post.Status, err)
	}
	_ = post.Body.Close()
}

func TestServer_FilesAreKeptByTheirTag(t *testing.T) {
	w := newWorld(t, 0, ui.Options{Token: token, Files: page}, &place{})
	resp, _ := w.ask("/app.js", "Accept-Encoding", "gzip")
	if resp.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("headers %v", resp.Header)
	}
	again, body := w.ask("/app.js", "If-None-Match", resp.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("asked again: %s with %d bytes", again.Status, len(body))
	}
}

// walk asks for everything there is.
func (w *world) walk() {
	w.Helper()
	var groups struct {
		Groups []struct{ Group string }
	}
	w.until("list", func() bool {
		var list struct {
			Total   int
			Indexed struct{ Trajectories, Of int }
		}
		w.get(w.api("/groups?outcome=kept,zero_variance&sort=reward&limit=5"), &groups)
		w.get(w.api("/groups"), &list)
		return len(groups.Groups) == 5 && list.Indexed.Trajectories == list.Indexed.Of
	})
	var group struct {
		Members []struct {
			ID, Final string
			Reward    *float64
			Used      bool
			Messages  []subjects.Message
		}
		Unused []struct{ Why string }
	}
	w.get(w.api("/groups/"+groups.Groups[0].Group), &group)
	if len(group.Members) < 2 || group.Members[0].Reward == nil || *group.Members[0].Reward < *group.Members[len(group.Members)-1].Reward || len(group.Members[0].Messages) == 0 {
		w.Errorf("group %+v", group)
	}
	var t struct {
		ID       string
		Address  struct{ Seq uint64 }
		Turns    []json.RawMessage
		Spent    []struct{ Generate *float64 } `json:"turn_seconds"`
		Text     []struct{ Pieces []string }
		Commands map[string]string
		Stored   float64
	}
	w.get(w.api("/trajectories/"+group.Members[0].ID), &t)
	if t.ID != group.Members[0].ID || t.Address.Seq == 0 || len(t.Spent) != len(t.Turns) || t.Stored == 0 || !strings.Contains(t.Commands["show"], t.ID+" --dir elsewhere") || len(t.Text) == 0 {
		w.Errorf("trajectory %+v", t)
	}
	var letters struct{ Letters []struct{ Number uint64 } }
	w.get(w.api("/deadletters"), &letters)
	if len(letters.Letters) == 0 {
		w.Error("no dead letters")
	} else if body := w.get(w.api(fmt.Sprintf("/deadletters/%d", letters.Letters[0].Number)), nil); !strings.Contains(body, `"preview_hex"`) {
		w.Errorf("letter %.300s", body)
	}
	for _, path := range []string{"", "/steps?from=2", "/series?span=600", "/groups?q=the&limit=3", "/groups?step=1..2&version=0..&std=..5&reward=0..1&status=succeeded&env=x&unused=yes"} {
		w.get(w.api(path), &map[string]any{})
	}
	if resp, body := w.ask(w.api("/trace?step=2")); resp.StatusCode != 200 || len(body) < 100 || !strings.Contains(resp.Header.Get("Content-Disposition"), "step-2.pftrace") {
		w.Errorf("trace: %s, %d bytes", resp.Status, len(body))
	}
	ctx := w.Context()
	if e := <-w.listen(ctx); e.kind != "state" || e.id != 1 || !strings.Contains(e.data, `"run":"seen"`) {
		w.Errorf("first event %+v", e)
	}
}

// states is all that a stream's state tells.
func states(t *testing.T, c *bus.Conn) string {
	t.Helper()
	text := ""
	for _, s := range subjects.Streams() {
		state, err := bus.StreamState(t.Context(), c, run, s)
		if err != nil {
			t.Fatal(err)
		}
		state.Consumers = 0 // a reader's own, which end with it
		text += fmt.Sprintf("%s %+v\n", s, state)
	}
	return text
}

func TestServer_LookingAtEverythingAsAViewerChangesNothing(t *testing.T) {
	secure := natstest.NewSecure(t, run)
	admin, err := bus.Connect(t.Context(), secure.Options("admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() }) //nolint:errcheck // the test is over
	w := &world{T: t, admin: admin}
	w.made(400)
	if _, err := bus.Bury(t.Context(), admin, run, bus.DeadLetter{Stage: "inspect", Reason: "made up", Source: run.StreamName(subjects.Rollouts), Sequence: 3, Data: []byte("\x81rubbish")}); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, 0, ui.Options{Token: token, Files: page}, &place{options: secure.Options("viewer")})
	before := states(t, admin)
	w.walk()
	if after := states(t, admin); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
	var list struct {
		Indexed struct {
			Tokens bool `json:"tokens_checked"`
		}
	}
	if w.get(w.api("/groups"), &list); list.Indexed.Tokens {
		t.Error("a viewer has read the lease key")
	}
}

func TestServer_RefusesWhatMeansNothing(t *testing.T) {
	w := newWorld(t, 100, ui.Options{Token: token, Files: page}, &place{})
	for path, want := range map[string]string{
		"/groups?sort=beauty": "want one of newest", "/groups?step=x": "a number", "/groups?limit=0": "from 1", "/groups?cursor=!": "first page", "/groups?outcome=lost": "want one of", "/groups?unused=maybe": "yes",
		"/groups?q=%3F%3F": "no word", "/groups?reward=NaN": "a number", "/steps?from=x": "a number", "/trace?last=9h": "up to an hour", "/trace?step=4..2": "the first", "/deadletters/x": "a number",
		"/trace?last=1s&step=2": "one of them",
	} {
		resp, body := w.ask(w.api(path))
		var e struct{ Error string }
		if err := json.Unmarshal([]byte(body), &e); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(e.Error, want) {
			t.Errorf("%s: %s: %s; want %q", path, resp.Status, body, want)
		}
	}
	for _, path := range []string{"/groups/t9999999", "/trajectories/t1/99/0", "/trajectories/x/y/z", "/deadletters/99999"} {
		if resp, body := w.ask(w.api(path)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s: %s", path, resp.Status, body)
		}
	}
}

func TestServer_AnswersAreOneCallAndPacked(t *testing.T) {
	w := newWorld(t, 300, ui.Options{Token: token, Files: page}, &place{})
	resp, body := w.ask(w.api(""), "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v, %v", resp.Header, err)
	}
	if data, err := io.ReadAll(z); err != nil || !json.Valid(data) {
		t.Errorf("unpacked: %v", err)
	}
}

func TestServer_ARunThatNobodyLooksAtIsClosed(t *testing.T) {
	w := newWorld(t, 300, ui.Options{Token: token, Files: page, Idle: time.Millisecond, IdleStopped: time.Millisecond}, &place{stopped: true})
	events := w.listen(t.Context())
	type state struct {
		Reading bool
		Step    struct{ Committed int }
	}
	a, b := state{Reading: true}, state{}
	for a.Reading {
		if e := <-events; e.kind == "state" {
			if err := json.Unmarshal([]byte(e.data), &a); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.closes(0) // though a browser listens: its run is stopped
	w.get(w.api(""), &b)
	if a != b || w.place.times.Load() < 2 {
		t.Errorf("opened %d times; state %+v, then %+v", w.place.times.Load(), a, b)
	}
	w.closes(0)
	w.get(w.api("/groups?q=the"), nil) // for a search it stays open until all bodies are read
	w.closes(0)
	var list struct {
		Indexed struct {
			Trajectories int
			Text         int
			TextOf       int `json:"text_of"`
		}
	}
	if w.get(w.api("/groups"), &list); list.Indexed.Text < list.Indexed.TextOf*9/10 || list.Indexed.Trajectories == 0 {
		t.Errorf("closed with %+v", list.Indexed)
	}
	w.place.live.Store(true)
	for range events { // ends, so that the browser comes again
	}
}

func TestServer_SaysGoodbye(t *testing.T) {
	w := newWorld(t, 100, ui.Options{Token: token, Files: page}, &place{})
	events := w.listen(t.Context())
	<-events
	w.page.Close()
	last := event{}
	for e := range events {
		last = e
	}
	if last.kind != "bye" {
		t.Errorf("last event %+v", last)
	}
}

func TestServer_HasRoomForSoManyBrowsers(t *testing.T) {
	w := newWorld(t, 100, ui.Options{Token: token, Files: page}, &place{})
	for range 64 {
		<-w.listen(t.Context())
	}
	if resp, body := w.ask(w.api("/events")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the 65th: %s: %s", resp.Status, body)
	}
	if n := w.place.times.Load(); n != 1 {
		t.Errorf("the run was opened %d times", n)
	}
}

func TestServer_AnyPathIsAnswered(t *testing.T) {
	w := newWorld(t, 0, ui.Options{Files: page}, &place{})
	for _, path := range []string{"/api/runs/%2e%2e/", "/..%2f..%2fetc/passwd", "/api/runs/seen/groups/%00", "/r/" + strings.Repeat("x", 5000), "/api/", "/api"} {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: path}
		w.page.ServeHTTP(rec, r)
		if rec.Code >= 500 && rec.Code != 503 || strings.Contains(rec.Body.String(), "root:") {
			t.Errorf("%.40s: %d: %.100s", path, rec.Code, rec.Body.String())
		}
	}
}

func TestServer_HoldsSoMuchAndNoMore(t *testing.T) {
	w := newWorld(t, 300, ui.Options{Token: token, Files: page, MostBytes: 1, Idle: time.Hour}, &place{})
	if _, err := synth.Write(t.Context(), w.admin, synth.Options{Run: "other", Trajectories: 100}); err != nil {
		t.Fatal(err)
	}
	w.get(w.api("/groups"), nil)
	w.get("/api/runs/other/groups", nil) // one of them has to go
	w.closes(1)
	w.get(w.api("/groups"), nil)
	if n := w.place.times.Load(); n != 3 && n != 2 {
		t.Errorf("opened %d times", n)
	}
}

// Of a token that is a part of a character its bytes are written out.
func TestServer_PartsOfCharactersCanBeRead(t *testing.T) {
	parts := func(*subjects.RunRecord, string) func(int32) string {
		return func(int32) string { return "字\xe6\xbc" }
	}
	w := newWorld(t, 100, ui.Options{Token: token, Files: page, Pieces: parts}, &place{})
	if body := w.get(w.api("/trajectories/t0/0/0"), nil); !strings.Contains(body, `"字‹e6›‹bc›"`) {
		t.Errorf("the trajectory is %.1000s", body)
	}
}
