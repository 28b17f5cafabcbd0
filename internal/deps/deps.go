// Package deps pins modules while the tree is young.
package deps

import (
	// Blank: they are here to stay in go.mod.
	_ "github.com/goccy/go-yaml"
	_ "github.com/goccy/go-yaml/ast"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/nats-io/nkeys"
	_ "github.com/rs/zerolog"
	_ "github.com/spf13/cobra"
	_ "github.com/synadia-io/orbit.go/natscontext"
	_ "github.com/vmihailenco/msgpack/v5"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "pgregory.net/rapid"
)
