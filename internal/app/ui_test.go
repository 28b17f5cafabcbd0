package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// restingRun is a run folder with a made-up run that nobody plays.
func restingRun(t *testing.T, root string) {
	t.Helper()
	dir := runDir(filepath.Join(root, string(testRun)))
	if err := makeRunDir(string(dir)); err != nil {
		t.Fatal(err)
	}
	conn, done, err := openStopped(t.Context(), dir, bus.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := synth.Write(t.Context(), conn, synth.Options{Run: testRun, Trajectories: 300}); err != nil {
		t.Fatal(err)
	}
}

// TestUI_AStoppedRunInABrowser opens the address that is printed, as a browser
// does, and finds the run that lies in a folder.
func TestUI_AStoppedRunInABrowser(t *testing.T) {
	root := t.TempDir()
	restingRun(t, root)
	ctx, stop := context.WithCancel(t.Context())
	said, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- UI(ctx, Source{Root: root, Log: zerolog.Nop()}, UIOptions{Listen: "127.0.0.1:0", Base: "/x/", Run: testRun, Log: zerolog.Nop(), Said: func(a, _ string) { said <- a }})
	}()
	address := <-said
	u, err := url.Parse(address)
	if err != nil || u.Path != "/x/r/"+string(testRun) || len(u.Query().Get("token")) < shortestToken {
		t.Fatalf("address %s: %v", address, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	get := func(path string, into any) int {
		t.Helper()
		resp, err := browser.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err == nil && into != nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v in %.200s", path, err, data)
		}
		return resp.StatusCode
	}
	if status := get(address, nil); status != http.StatusOK {
		t.Fatalf("the page: %d", status)
	}
	api := "http://" + u.Host + "/x/api/runs"
	var runs struct {
		Runs []struct {
			Run, State, Where string
			Bytes             int64
		}
	}
	get(api, &runs)
	if len(runs.Runs) != 1 || runs.Runs[0].Run != string(testRun) || runs.Runs[0].State != "stopped" || runs.Runs[0].Bytes < 1000 {
		t.Errorf("runs %+v", runs)
	}
	var state struct {
		Recipe string
		Step   struct{ Committed int }
	}
	if get(api+"/"+string(testRun), &state); state.Step.Committed == 0 || state.Recipe == "" {
		t.Errorf("state %+v", state)
	}
	if status := get(api+"/nowhere", nil); status != http.StatusNotFound {
		t.Errorf("a run that is not there: %d", status)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if conn, done, err := (Source{Root: root, Log: zerolog.Nop()}).open(t.Context(), testRun); err != nil { // its store is free again
		t.Error(err)
	} else {
		if _, err := bus.StreamState(t.Context(), conn, testRun, subjects.Ledger); err != nil {
			t.Error(err)
		}
		done()
	}
}

func TestUI_ATakenPortBecomesTheNextFreeOne(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // the test is over
	host, port, _ := net.SplitHostPort(taken.Addr().String())
	l, note, err := listenNear(host, port)
	if err != nil || !strings.Contains(note, "taken") {
		t.Fatalf("note %q: %v", note, err)
	}
	_ = l.Close()
	if _, _, err := listenNear("192.0.2.1", "8900"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("an address that is not this machine's: %v", err)
	}
}

func TestUI_AddressIsTheBrowsers(t *testing.T) {
	for _, c := range []struct {
		o        UIOptions
		has, not string
		fails    string
	}{
		{UIOptions{Listen: "127.0.0.1:0", Base: "/"}, "http://127.0.0.1:", "?token=short", ""},
		{UIOptions{Listen: "127.0.0.1:0", Base: "/", NoToken: true}, "http://127.0.0.1:", "token", ""},
		{UIOptions{Listen: "0.0.0.0:0", Base: "/y/", Token: "0123456789abcdef"}, "/y/?token=0123456789abcdef", "0.0.0.0", ""},
		{UIOptions{Listen: "127.0.0.1:0", Base: "/", Public: "https://box.example/h", Run: "a"}, "https://box.example/h/r/a?token=", "127", ""},
		{UIOptions{Listen: "127.0.0.1:0", Token: "short"}, "", "", "at least 16"},
		{UIOptions{Listen: "127.0.0.1"}, "", "", "an address and a port"},
		{UIOptions{Listen: "127.0.0.1:0", Public: "box"}, "", "", "one for a browser"},
		{UIOptions{Listen: "127.0.0.1:x"}, "", "", "a number"},
	} {
		o := c.o
		p, err := newPage(Source{Root: t.TempDir()}, &o)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%+v: %v, want %q", c.o, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.address, c.has) || strings.Contains(p.address, c.not) {
			t.Errorf("%+v: %s, want %q and no %q", c.o, p.address, c.has, c.not)
		}
		p.close()
	}
}

// TestUIRuns_KnowsWhatALiveRunSays: the list of runs has of a run that is played
// what its bus says.
func TestUIRuns_KnowsWhatALiveRunSays(t *testing.T) {
	root := t.TempDir()
	restingRun(t, root)
	dir := runDir(filepath.Join(root, string(testRun)))
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: dir.store(), CredentialsFile: dir.credentials()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	u := newUIRuns(Source{Root: root, Log: zerolog.Nop()})
	defer u.close()
	list, err := u.List(t.Context())
	if err != nil || len(list) != 1 || !u.Live(testRun) || list[0].State == "stopped" || list[0].Step == nil || *list[0].Step == 0 || list[0].Recipe == "" {
		t.Fatalf("list %+v: %v", list, err)
	}
	opened, err := u.Open(t.Context(), testRun)
	if err != nil || opened.Stopped || !opened.Local {
		t.Fatalf("opened %+v: %v", opened, err)
	}
	defer opened.Close()
	record, err := bus.LookupRun(t.Context(), opened.Conn, testRun)
	if err != nil {
		t.Fatal(err)
	}
	if piece := u.pieces(record, record.Tokenizer); piece == nil || piece(1) == "" {
		t.Error("the vocabulary of a run of this build is not known")
	}
	if u.pieces(record, "another") != nil {
		t.Error("the words of another vocabulary")
	}
}
