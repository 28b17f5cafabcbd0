package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/advise"
	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/metrics"
	"github.com/headrace/headrace/subjects"
)

// UIOptions are what `headrace ui` is told.
type UIOptions struct {
	// Listen is the address; a port that is taken becomes the next free one.
	Listen string
	// Token is asked of browsers; empty: one is made, unless NoToken is set.
	Token   string
	NoToken bool
	// Base is the path that the page is under.
	Base string
	// Public is the address that browsers use where it is not the one listened on:
	// that of a proxy, or of a container's published port.
	Public string
	// Run is the run whose page is announced; empty: the list of runs.
	Run subjects.Run
	// Health, when set, is a file that is renewed while the bus answers.
	Health string
	// Metrics is the address that serves the page's own numbers to Prometheus;
	// empty: none.
	Metrics string
	// Said, when set, gets the address for the browser, its token included, once
	// the page is there, and a sentence on what is not as asked for.
	Said func(address, note string)
	Log  zerolog.Logger
}

// DefaultUIListen is where the page is, if nobody says.
const DefaultUIListen = "127.0.0.1:8900"

const (
	tokenBytes    = 18
	shortestToken = 16 // characters that a token of the user's must have
	portsTried    = 50
)

// uiMemory is what `headrace ui` tells the collector to stay under, bytes.
const uiMemory = 240 << 20

// UI serves the page until ctx ends.
func UI(ctx context.Context, s Source, o UIOptions) error {
	debug.SetMemoryLimit(uiMemory)
	debug.SetGCPercent(50)
	if _, err := os.Stat(runDir(filepath.Join(s.Root, string(o.Run))).store()); err != nil && o.Run != "" && !s.Remote {
		return fmt.Errorf("%w %s in %s: `headrace runs` lists what there is; a run elsewhere needs --url", errNoRun, o.Run, s.Root)
	}
	p, err := newPage(s, &o)
	if err != nil {
		return err
	}
	defer p.close()
	if o.Metrics != "" {
		own := metrics.Page{Addr: o.Metrics, Version: BuildInfo().Version, Asked: p.counts.page(p.server)}
		stop, err := own.Serve(ctx, nil, o.Log)
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.Said != nil {
		o.Said(p.address, p.note)
	}
	if o.Health != "" && s.Remote {
		conn, err := p.runs.shared(ctx)
		if err != nil {
			return err
		}
		defer heartbeat(conn, o.Health, o.Log)()
	}
	return p.serve(ctx)
}

// page is a server of the page and where it listens.
type page struct {
	runs    *uiRuns
	server  *ui.Server
	counts  *uiCounts // in front of it
	listen  net.Listener
	address string // for a browser
	note    string // on what is not as asked for
}

// newPage listens.
func newPage(s Source, o *UIOptions) (*page, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want an address and a port, as in %s: %w", o.Listen, DefaultUIListen, err)
	}
	public, err := publicURL(o.Public)
	if err != nil {
		return nil, err
	}
	if public != nil && trimmed(o.Base) == "" {
		o.Base = public.Path
	}
	switch {
	case o.NoToken:
		o.Token = ""
	case o.Token == "":
		secret := make([]byte, tokenBytes)
		rand.Read(secret) //nolint:errcheck // it never fails
		o.Token = base64.RawURLEncoding.EncodeToString(secret)
	case len(o.Token) < shortestToken:
		return nil, fmt.Errorf("the token HEADRACE_UI_TOKEN has %d characters: want at least %d, as `openssl rand -hex 16` makes them", len(o.Token), shortestToken)
	}
	l, note, err := listenNear(host, port)
	if err != nil {
		return nil, err
	}
	p := &page{runs: newUIRuns(s), listen: l}
	c := ui.Options{Runs: p.runs, Token: o.Token, Base: o.Base, Version: BuildInfo(), Pieces: p.runs.pieces, Board: board.Config{Advise: advise.Rules}, Log: o.Log}
	if loopback(host) {
		c.Hosts = []string{"127.0.0.1", "localhost", "::1", host}
		if public != nil {
			c.Hosts = append(c.Hosts, strings.ToLower(public.Hostname()))
		}
	} else if o.NoToken {
		note = strings.TrimSpace(note + " Whoever reaches " + l.Addr().String() + " sees everything: no token is asked for.")
	}
	p.server = ui.New(c)
	p.counts = newUICounts(o.Base, p.server)
	p.address, p.note = o.addressOf(l, public), note
	return p, nil
}

func trimmed(path string) string { return strings.Trim(path, "/") }

func publicURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("public address %q: want one for a browser, as in https://box.example/headrace/", text)
	}
	return u, nil
}

// addressOf is what a browser opens first.
func (o *UIOptions) addressOf(l net.Listener, public *url.URL) string {
	u := url.URL{Scheme: "http", Host: l.Addr().String(), Path: o.Base}
	if host, port, _ := net.SplitHostPort(u.Host); net.ParseIP(host).IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", port)
	}
	if public != nil {
		u = *public
	}
	if u.Path = strings.TrimSuffix(u.Path, "/") + "/"; u.Path[0] != '/' {
		u.Path = "/" + u.Path
	}
	if o.Run != "" {
		u.Path += "r/" + string(o.Run)
	}
	if o.Token != "" {
		u.RawQuery = url.Values{"token": {o.Token}}.Encode()
	}
	return u.String()
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listenNear listens on a port or, if it is taken, the next one that is free.
func listenNear(host, port string) (l net.Listener, note string, err error) {
	first, err := strconv.Atoi(port)
	if err != nil || first < 0 || first > 65535 {
		return nil, "", fmt.Errorf("listen on port %q: want a number from 0 to 65535", port)
	}
	for n := first; n < min(first+portsTried, 65536); n++ {
		if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n))); err == nil {
			if n != first {
				note = fmt.Sprintf("Port %d is taken, so it is %d.", first, n)
			}
			return l, note, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, "", fmt.Errorf("listen for browsers: %w; name another address with --listen", err)
}

// serve answers until ctx ends.
func (p *page) serve(ctx context.Context) error {
	h := &http.Server{Handler: p.counts, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(p.listen) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	p.server.Close()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if h.Shutdown(end) != nil {
		h.Close() //nolint:errcheck // browsers that do not leave
	}
	<-ended
	return nil
}

func (p *page) close() {
	p.listen.Close() //nolint:errcheck // perhaps a second time
	p.server.Close()
	p.runs.close()
}
