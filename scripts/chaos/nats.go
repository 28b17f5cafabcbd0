package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
)

const natsUser = "headrace"

func logger() zerolog.Logger { return zerolog.New(os.Stderr).With().Timestamp().Logger() }

// serveNATS is a server of its own on a store: every write is synced. A server
// that can no longer store anything ends, so that its supervisor starts it again.
func serveNATS(ctx context.Context, j job) error {
	s, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: j.Store, Port: j.Port, Sync: "always", CredentialsFile: j.Credentials, Log: logger()})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	select {
	case <-ctx.Done():
		return errStopped
	case <-s.Failed():
		return s.Err()
	}
}

// errStopped ends a role that was told to stop, not one that was done.
var errStopped = errors.New("told to stop")

// serveNode is one of three servers that hold every stream three times.
func serveNode(ctx context.Context, j job) error {
	routes := make([]*url.URL, 0, len(j.Cluster))
	for _, port := range j.Cluster {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: j.Name, Host: "127.0.0.1", Port: j.Port, Username: natsUser, Password: j.Password,
		JetStream: true, StoreDir: j.Store, SyncAlways: true, JetStreamMaxStore: 1 << 50, JetStreamMaxMemory: 1 << 30,
		MaxPayload: 8 << 20, MaxPending: 256 << 20, WriteDeadline: 30 * time.Second, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: j.Cluster[0]},
		Routes:  routes,
	})
	if err != nil {
		return fmt.Errorf("configure node: %w", err)
	}
	ns.SetLoggerV2(&natsLog{logger()}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(30 * time.Second) {
		return errors.New("node is not ready")
	}
	<-ctx.Done()
	ns.Shutdown()
	ns.WaitForShutdown()
	return errStopped
}

// natsLog is a node's log.
type natsLog struct{ log zerolog.Logger }

func (l *natsLog) Noticef(format string, v ...any) { l.log.Info().Msgf(format, v...) }
func (l *natsLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *natsLog) Fatalf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *natsLog) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *natsLog) Debugf(string, ...any)           {}
func (l *natsLog) Tracef(string, ...any)           {}
