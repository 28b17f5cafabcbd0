package cli

import (
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newUI(e *env) *cobra.Command {
	var f sourceFlags
	o := app.UIOptions{}
	c := &cobra.Command{
		Use:   "ui [RUN]",
		Short: "Serve the page that shows runs in a browser",
		Long: `Serve the page that shows runs in a browser, live or ended: what a run is doing,
where its time goes, every group and trajectory, token by token. It only reads. On
the loopback address, and to who has the token in the address that it prints;
HEADRACE_UI_TOKEN chooses the token. docs/ui.md says how to serve it to others.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes a run, or none for all", c.CommandPath())}
			}
			return nil
		},
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := validRun(args[0]); err != nil {
					return err
				}
				o.Run = subjects.Run(args[0])
			}
			if err := checkUI(&o); err != nil {
				return err
			}
			o.Token, o.Health, o.Log = os.Getenv("HEADRACE_UI_TOKEN"), healthFile(), e.log
			o.Said = func(address, note string) { e.uiText(address, note) }
			return app.UI(c.Context(), f.source(c, e), o)
		},
	}
	fs := c.Flags()
	fs.StringVar(&o.Listen, "listen", app.DefaultUIListen, "address and port for browsers; a port that is taken becomes the next free one")
	fs.BoolVar(&o.NoToken, "no-token", false, "ask browsers for no token: who reaches the address sees everything")
	fs.StringVar(&o.Base, "base-path", "/", "path that the page is under, behind a proxy that serves other things too")
	fs.StringVar(&o.Public, "public", "", "address that browsers use where it is another one, as https://box.example/headrace/ of a proxy")
	metricsFlag(c, &o.Metrics)
	f.flags(c)
	return c
}

// checkUI refuses flags that mean nothing.
func checkUI(o *app.UIOptions) error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return usageError{fmt.Errorf("--listen %q: want an address and a port, as in %s", o.Listen, app.DefaultUIListen)}
	}
	if base := strings.Trim(o.Base, "/"); strings.ContainsAny(base, " \"'<>?#%\\") || strings.Contains(base, "..") {
		return usageError{fmt.Errorf("--base-path %q: want a path of plain names, as in /headrace/", o.Base)}
	}
	return nil
}

// uiText says where the page is: to people on stderr, with --json on stdout.
func (e *env) uiText(address, note string) {
	if e.json {
		_ = e.print(struct {
			URL string `json:"url"`
		}{address}, nil)
	} else {
		fmt.Fprintln(e.out, address)
	}
	if note != "" {
		fmt.Fprintln(e.err, note)
	}
	if e.tty {
		fmt.Fprintln(e.err, "open it in a browser; Ctrl-C ends it")
	}
}
