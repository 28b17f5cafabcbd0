// Command photograph takes the README's pictures of a run: its pages in a real
// Chromium, light, dark and on a phone, and `headrace top` in a terminal.
//
//	headrace ui --root runs &            # prints its address, token included
//	go run ./scripts/photograph --url 'http://127.0.0.1:8900/?token=…' --run frozenlake-1
//	go run ./scripts/photograph --record 'bin/headrace top frozenlake-1' --seconds 8
//
// The pictures have fixed sizes and few colours, so that they cost a repository
// little and change where the pages do.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "photograph:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("photograph", flag.ContinueOnError)
	url := flags.String("url", "", "address that `headrace ui` printed, its token included")
	name := flags.String("run", "", "run to show")
	out := flags.String("out", "docs/img", "folder for the pictures")
	group := flags.String("group", "", "group to show; default the kept one whose rewards differ most")
	only := flags.String("only", "", "only pictures whose name begins so, as in ui-run")
	record := flags.String("record", "", "command to record in a terminal, instead of pages")
	title := flags.String("title", "", "command as the picture shows it; default the recorded one")
	seconds := flags.Float64("seconds", 8, "how long to record")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *record != "":
		return film(ctx, *record, cmp.Or(*title, *record), *seconds, *out+"/ui-top.svg")
	case *url == "" || *name == "":
		return fmt.Errorf("say --url and --run, or --record")
	}
	return pictures(ctx, *url, *name, *group, *only, *out)
}
