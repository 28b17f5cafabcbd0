package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// single is the configuration of the one server.
const single = "nats.conf"

// configNames are the configuration files, within the folder.
func (a *authority) configNames() []string {
	if len(a.Settings.Cluster) == 0 {
		return []string{single}
	}
	names := make([]string, len(a.Settings.Cluster))
	for i, n := range a.Settings.Cluster {
		names[i] = n + ".conf"
	}
	return names
}

// config writes the server's configuration: nats.conf, or one file a node.
func (a *authority) config() error {
	nodes := a.Settings.Cluster
	if len(nodes) == 0 {
		return a.write(single, []byte(a.node("headrace", "")))
	}
	secret, err := a.routeSecret()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := a.write(n+".conf", []byte(a.node(n, a.routes(n, secret)))); err != nil {
			return err
		}
	}
	return nil
}

// routeSecret is the password that nodes show each other beside their certificate.
func (a *authority) routeSecret() (string, error) {
	name := filepath.Join(keysDir, "route.secret")
	b, err := os.ReadFile(a.join(name))
	if errors.Is(err, os.ErrNotExist) {
		b = []byte(rand.Text())
		err = a.write(name, b)
	}
	return string(trim(b)), err
}

// node is the configuration of one server.
func (a *authority) node(name, cluster string) string {
	s := &a.Settings
	return fmt.Sprintf(`# Written by headrace auth init, and again each time it is run. Accounts are in
# jwt/accounts.conf, which auth add and auth revoke write too. To make a running server read
# both again: nats-server --signal reload, or send it SIGHUP.
server_name: %q
listen: "0.0.0.0:%d"
http: "127.0.0.1:8222" # health, for this host alone

include "jwt/accounts.conf"

tls {
%s  min_version: "1.3"
  timeout: 5
}

jetstream {
  store_dir: %q
  sync_interval: always # an acknowledged write survives a power failure
  max_file_store: %d # streams reserve their limits, which are not used; the disk itself is watched instead
  max_memory_store: %d
  max_buffered_size: %d # of one stream, shared by all its producers
  limits { max_ack_pending: 65536, duplicate_window: "1h" }
}

max_payload: 8MB
max_pending: 256MB # to one slow client
max_control_line: 4096 # over the longest credential
write_deadline: "30s" # a slow reader of 8 MB messages is not dropped
%s`, name, s.Port, a.certPaths(), s.Store, int64(1)<<50, 1<<30, 512<<20, cluster)
}

// certPaths are the lines that name the server's certificate and key.
func (a *authority) certPaths() string {
	at := func(name string) string { return path.Join(filepath.ToSlash(a.Settings.ServerDir), tlsDir, name) }
	return fmt.Sprintf("  cert_file: %q\n  key_file: %q\n", at(serverCert), at(serverKey))
}

// routes are how a node finds the others. Nodes know each other by certificate
// and password.
func (a *authority) routes(self, secret string) string {
	var others []string
	for _, n := range a.Settings.Cluster {
		if n != self {
			others = append(others, fmt.Sprintf("    %q", "nats-route://route:"+secret+"@"+n+":6222"))
		}
	}
	return fmt.Sprintf(`
cluster {
  name: "headrace"
  listen: "0.0.0.0:6222"
  authorization { user: "route", password: %q, timeout: 5 }
  routes: [
%s
  ]
  tls {
%s    ca_file: %q
    verify: true
    timeout: 5
  }
}
`, secret, strings.Join(others, "\n"), indent(a.certPaths()), path.Join(filepath.ToSlash(a.Settings.ServerDir), tlsDir, caName))
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
}
