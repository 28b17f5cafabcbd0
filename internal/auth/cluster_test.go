package auth_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/headrace/headrace/internal/auth"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// TestCluster_ThreeNodesKnowEachOtherAndNobodyElse starts the three
// configurations that were written, on loopback ports, and makes a run of three
// copies on them.
func TestCluster_ThreeNodesKnowEachOtherAndNobodyElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	nodes := []string{"n1", "n2", "n3"}
	r, err := auth.Init(auth.Options{Dir: dir, Run: run, Producers: 1, Cluster: nodes, Store: t.TempDir()})
	must(t, err)
	if len(r.Config) != 3 {
		t.Fatalf("%v", r.Config)
	}
	var options []*server.Options
	for _, file := range r.Config {
		o, err := server.ProcessConfigFile(file)
		must(t, err)
		if len(o.Routes) != 2 || o.Cluster.TLSConfig == nil || o.Cluster.Password == "" {
			t.Fatalf("%s: %d routes", file, len(o.Routes))
		}
		o.Host, o.Port, o.HTTPHost, o.HTTPPort = "127.0.0.1", free(t), "", 0
		o.Cluster.Host, o.Cluster.Port, o.StoreDir = "127.0.0.1", free(t), t.TempDir()
		o.NoSigs, o.NoLog = true, true
		options = append(options, o)
	}
	var urls []string
	for i, o := range options {
		for k, route := range o.Routes { // the names mean nothing here
			peer := options[(i+1+k)%3]
			o.Routes[k] = &url.URL{Scheme: route.Scheme, User: route.User, Host: fmt.Sprintf("127.0.0.1:%d", peer.Cluster.Port)}
		}
		ns, err := server.NewServer(o)
		must(t, err)
		ns.Start()
		t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	connect := func(name string) *bus.Conn {
		c, err := bus.Connect(t.Context(), bus.Options{URL: strings.Join(urls, ","), Creds: filepath.Join(dir, "creds", name+".creds")})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	admin := connect("admin")
	for deadline := time.Now().Add(time.Minute); ; {
		err := bus.EnsureStreams(t.Context(), admin, run, subjects.StreamOptions{Replicas: 3})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		select { // until the nodes have a leader
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	must(t, bus.CreateRun(t.Context(), admin, &subjects.RunRecord{Run: run, Schema: subjects.SchemaVersion}))
	producer := connect("producers/p01")
	if _, err := bus.LookupRun(t.Context(), producer, run); err != nil {
		t.Error(err)
	}
	if _, err := bus.Send(t.Context(), producer, run.RolloutSubject("p01"), "id", nil, []byte("x")); err != nil {
		t.Error(err)
	}
	intruder(t, options[0], options[1].Cluster.Port)
}

// intruder is a fourth node with the wrong keys; it finds nobody.
func intruder(t *testing.T, honest *server.Options, port int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "auth")
	_, err := auth.Init(auth.Options{Dir: dir, Run: run, Producers: 1, Cluster: []string{"n1", "n2", "n4"}, Store: t.TempDir()})
	must(t, err)
	o, err := server.ProcessConfigFile(filepath.Join(dir, "n4.conf"))
	must(t, err)
	o.Host, o.Port, o.HTTPHost, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, "", 0
	o.Cluster.Host, o.Cluster.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	o.JetStream = false
	o.Routes = []*url.URL{{Scheme: "nats-route", User: honest.Routes[0].User, Host: fmt.Sprintf("127.0.0.1:%d", port)}} // it even knows the password
	ns, err := server.NewServer(o)
	must(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	deadline := time.After(3 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if ns.NumRoutes() > 0 {
				t.Fatal("a node with other keys joined the cluster")
			}
		case <-deadline:
			return
		}
	}
}

func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestInit_WithTheUsersOwnCertificate: what is given is used; clients trust the
// CA that came with it.
func TestInit_WithTheUsersOwnCertificate(t *testing.T) {
	theirs := filepath.Join(t.TempDir(), "theirs")
	_, err := auth.Init(auth.Options{Dir: theirs, Run: run, Producers: 1})
	must(t, err)
	tls := func(name string) string { return filepath.Join(theirs, "tls", name) }
	dir := filepath.Join(t.TempDir(), "auth")
	_, err = auth.Init(auth.Options{Dir: dir, Run: run, Producers: 1, Cert: tls("server.pem"), Key: tls("server.key"), CA: tls("ca.pem")})
	must(t, err)
	for _, name := range []string{"server.pem", "server.key", "ca.pem"} {
		want, err := os.ReadFile(tls(name))
		must(t, err)
		have, err := os.ReadFile(filepath.Join(dir, "tls", name))
		if err != nil || string(have) != string(want) {
			t.Errorf("%s is another: %v", name, err)
		}
	}
	creds, err := os.ReadFile(filepath.Join(dir, "creds", "admin.creds"))
	must(t, err)
	ca, err := os.ReadFile(tls("ca.pem"))
	must(t, err)
	if !strings.Contains(string(creds), string(ca)) {
		t.Error("the credentials do not name the CA")
	}
	// Later they take a certificate that the system trusts anyway.
	_, err = auth.Init(auth.Options{Dir: theirs, Run: run, Producers: 1, Cert: tls("server.pem"), Key: tls("server.key")})
	must(t, err)
	creds, err = os.ReadFile(filepath.Join(theirs, "creds", "admin.creds"))
	if _, gone := os.Stat(tls("ca.pem")); err != nil || strings.Contains(string(creds), "CERTIFICATE") || !strings.Contains(string(creds), "SEED") || gone == nil {
		t.Errorf("an old CA is still trusted: %v", err)
	}
	for what, o := range map[string]auth.Options{
		"no key":          {Dir: dir, Run: run, Cert: tls("server.pem")},
		"a CA alone":      {Dir: dir, Run: run, CA: tls("ca.pem")},
		"another key":     {Dir: dir, Run: run, Cert: tls("server.pem"), Key: filepath.Join(theirs, "keys", "ca.key")},
		"two nodes":       {Dir: dir, Run: run, Cluster: []string{"a", "b"}},
		"no name":         {Dir: dir, Run: "Demo!"},
		"no folder named": {Run: run},
	} {
		if _, err := auth.Init(o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
