package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/auth"
	"github.com/headrace/headrace/subjects"
)

func newAuth(e *env) *cobra.Command {
	c := &cobra.Command{
		Use: "auth", Short: "Make the keys, credentials and NATS configuration that keep strangers out of a run",
		Long: `Make the keys, credentials and NATS configuration that keep strangers out of a
run and every role to what it is for. All of it is in one folder, which no
server and no role needs as a whole: a role gets its file of creds/, the server
nats.conf with jwt/ and tls/, and keys/ is for this command alone.`,
	}
	c.AddCommand(newAuthInit(e), newAuthAdd(e), newAuthRevoke(e), newAuthList(e))
	return c
}

func newAuthInit(e *env) *cobra.Command {
	var o auth.Options
	var run string
	c := &cobra.Command{
		Use: "init DIR", Short: "Make keys, a credential for every role of a run, and the server's configuration", Args: exactArgs(1, "a folder"),
		Long: `Make keys, certificates, a credential for every role of a run, and the server's
configuration. Again on the same folder it adds what is missing and keeps what is
there; with another run it adds that run's credentials.

  DIR/nats.conf         for nats-server -c (n1.conf, n2.conf .. with --cluster)
  DIR/jwt/, DIR/tls/    what nats.conf refers to
  DIR/creds/            admin, grouper, trainer, engine, viewer; producers/p01, ..
  DIR/keys/             what signs: keep it to yourself`,
		RunE: func(_ *cobra.Command, args []string) error {
			if run == "" {
				return usageError{fmt.Errorf("which run are the credentials for? name it with --run")}
			}
			if err := validRun(run); err != nil {
				return err
			}
			if o.Port < 0 || o.Port > 65535 {
				return usageError{fmt.Errorf("--port %d: want 0 to 65535", o.Port)}
			}
			o.Dir, o.Run = args[0], subjects.Run(run)
			r, err := auth.Init(o)
			return e.authResult(r, err)
		},
	}
	f := c.Flags()
	f.StringVar(&run, "run", envOr("HEADRACE_RUN", ""), "name of the run")
	f.StringSliceVar(&o.Hosts, "host", nil, "names and addresses under which clients reach the server; 127.0.0.1 and localhost are always among them")
	f.IntVar(&o.Producers, "producers", 32, "how many credentials for producers")
	f.StringVar(&o.Store, "store", "", "folder in which the server keeps its streams (default /data)")
	f.StringVar(&o.ServerDir, "server-dir", "", "DIR as the server sees it (default: DIR, or the folder of --hand-out)")
	f.StringVar(&o.HandOut, "hand-out", "", "`folder` to write one for the server (nats) and one for each role in, with what each needs and nothing else")
	f.IntVar(&o.Port, "port", 0, "port that clients connect to (default 4222)")
	f.StringSliceVar(&o.Cluster, "cluster", nil, "names of the nodes of a cluster of three, as they reach each other")
	f.StringVar(&o.Cert, "tls-cert", "", "certificate of the server, if not one that is made")
	f.StringVar(&o.Key, "tls-key", "", "`file` of its key")
	f.StringVar(&o.CA, "ca", "", "`file` of the CA that clients should trust with --tls-cert (default: what their system trusts)")
	return c
}

func newAuthAdd(e *env) *cobra.Command {
	var run string
	c := &cobra.Command{
		Use: "add ROLE NAME DIR", Short: "Make one more credential", Args: exactArgs(3, "a role, a name and the folder"),
		Example: "  headrace auth add producer p33 --run demo auth",
		RunE: func(_ *cobra.Command, args []string) error {
			role, err := auth.ParseRole(args[0])
			if err != nil {
				return usageError{err}
			}
			if run == "" && role != auth.Admin {
				return usageError{fmt.Errorf("which run is it for? name it with --run")}
			}
			r, err := auth.Add(args[2], role, args[1], subjects.Run(run))
			return e.authResult(r, err)
		},
	}
	c.Flags().StringVar(&run, "run", envOr("HEADRACE_RUN", ""), "name of the run")
	return c
}

func newAuthRevoke(e *env) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME DIR", Short: "End a credential", Args: exactArgs(2, "a name and the folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := auth.Revoke(args[1], args[0])
			return e.authResult(r, err)
		},
	}
}

func newAuthList(e *env) *cobra.Command {
	return &cobra.Command{
		Use: "ls DIR", Short: "List the credentials that were made", Args: exactArgs(1, "the folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := auth.List(args[0])
			if err != nil {
				return err
			}
			return e.print(list, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "NAME\tROLE\tRUN\tCREATED\tFILE")
				for _, i := range list {
					file := i.File
					if i.Revoked != nil {
						file = "revoked " + i.Revoked.Format("2006-01-02 15:04")
					}
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", i.Name, i.Role, i.Run, i.Created.Format("2006-01-02 15:04"), file)
				}
				_ = t.Flush()
			})
		},
	}
}

// authResult says what was made and what is left to do.
func (e *env) authResult(r *auth.Result, err error) error {
	if err != nil {
		return err
	}
	return e.print(r, func(w io.Writer) {
		switch n := len(r.Made); {
		case n == 1:
			fmt.Fprintf(w, "made %s\n", filepath.Join(r.Dir, r.Made[0].File))
		case n > 1:
			fmt.Fprintf(w, "made %d credentials in %s\n", n, filepath.Join(r.Dir, "creds"))
		}
		for _, c := range r.Config {
			fmt.Fprintf(w, "nats-server -c %s\n", c)
		}
		if r.Reload {
			fmt.Fprintln(w, "a server that runs must read its configuration again: nats-server --signal reload, or send it SIGHUP")
		}
	})
}
