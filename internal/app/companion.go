package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
)

// Companion is a program that a role starts, watches over and ends with: the
// trainer of a bridge, the engine of a sidecar. So one container is one role.
type Companion struct {
	Args   []string  // the program and its arguments; empty: there is none
	Output io.Writer // of both its streams
}

func (c Companion) child(name string, log zerolog.Logger, env ...string) *child {
	return &child{name: name, program: c.Args[0], args: c.Args[1:], env: env, out: c.Output, log: log, restarts: childRestarts}
}

// withTrainer runs a bridge around its trainer: the trainer may report its last
// checkpoint, and a trainer that has done all its steps leaves the bridge to
// inspect what is still played.
func withTrainer(ctx context.Context, trainer *child, bridge func(context.Context) error) error {
	return nested(ctx, bridge, func(ctx context.Context) error {
		if err := trainer.run(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// withEngine runs an engine around its sidecar: the engine leaves the registry
// before it stops.
func withEngine(ctx context.Context, engine *child, sidecar func(context.Context) error) error {
	engine.always = true
	return nested(ctx, engine.run, sidecar)
}

// nested runs inner inside outer, which starts first and ends last. The end of
// one is the end of the other.
func nested(ctx context.Context, outer, inner func(context.Context) error) error {
	around, stopOuter := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOuter()
	ctx, stopInner := context.WithCancel(ctx)
	defer stopInner()
	done := make(chan error, 1)
	go func() {
		defer stopInner()
		done <- outer(around)
	}()
	err := inner(ctx)
	stopOuter()
	return errors.Join(<-done, err)
}

// anyHost in an engine's URL stands for the address that the bus knows this
// machine by, which other parts of the fleet can reach it at.
const anyHost = "auto"

// reachable replaces anyHost in the URL of an engine.
func reachable(conn *bus.Conn, engine string) (string, error) {
	u, err := url.Parse(engine)
	if err != nil || u.Hostname() != anyHost {
		return engine, nil // a URL that is none is refused where it is used
	}
	ip, err := conn.NC().GetClientIP()
	if err != nil {
		return "", fmt.Errorf("find this machine's address for --engine-url %s: %w", engine, err)
	}
	u.Host = net.JoinHostPort(ip.String(), u.Port())
	return u.String(), nil
}
