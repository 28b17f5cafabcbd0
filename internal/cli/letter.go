package cli

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/app"
)

// letterText prints all that can be read of a dead letter.
func letterText(w io.Writer, d *app.LetterDetail) {
	what := "message"
	if d.Item >= 0 {
		what = fmt.Sprintf("trajectory %d of message", d.Item)
	}
	fmt.Fprintf(w, "dead letter %d of %s: stage %s, %s %d of %s\n", d.Number, d.At.Local().Format("2006-01-02 15:04:05"), d.Stage, what, d.Sequence, d.Source)
	fmt.Fprintf(w, "reason: %s\n", d.Reason)
	switch {
	case d.Now == "":
		fmt.Fprintln(w, "this build finds nothing wrong with it: `headrace deadletter requeue` would publish it")
	case d.Now != d.Reason:
		fmt.Fprintf(w, "now: %s\n", d.Now)
	}
	if len(d.Requeued) > 0 {
		fmt.Fprintf(w, "requeued as messages %d of ROLLOUTS\n", d.Requeued)
	}
	fmt.Fprintln(w, "headers:")
	for _, k := range slices.Sorted(maps.Keys(d.Headers)) {
		fmt.Fprintf(w, "  %s: %s\n", k, strings.Join(d.Headers[k], ", "))
	}
	switch {
	case d.From == "" && !d.Dropped.IsZero():
		fmt.Fprintf(w, "its body was dropped at %s, and ROLLOUTS has it no more\n", d.Dropped.Local().Format("2006-01-02 15:04:05"))
		return
	case d.From == "":
		fmt.Fprintln(w, "it was buried without its body, and ROLLOUTS has that no more")
		return
	}
	if len(d.Raw) < d.Original {
		fmt.Fprintf(w, "body: the first %d of %d bytes, from %s\n", len(d.Raw), d.Original, d.From)
	} else {
		fmt.Fprintf(w, "body: %d bytes, from %s\n", len(d.Raw), d.From)
	}
	if d.Decoded != nil {
		fmt.Fprintln(w)
		app.WriteTrajectory(w, d.Decoded, false)
	}
	if d.Fault != "" {
		fmt.Fprintf(w, "\nnot decoded from byte %d on: %s\n", d.FaultAt, d.Fault)
		hexdump(w, d.Raw, d.FaultAt)
	}
}

const dumpAround = 64 // bytes before the fault, and twice that after it

// hexdump prints the bytes around a fault, whose line it marks.
func hexdump(w io.Writer, b []byte, at int) {
	const row = 16
	from := max(0, at-dumpAround) / row * row
	for ; from < min(len(b), at+2*dumpAround); from += row {
		line := b[from:min(len(b), from+row)]
		mark := " "
		if at >= from && at < from+row {
			mark = ">"
		}
		text := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '.'
			}
			return r
		}, latin(line))
		fmt.Fprintf(w, "%s %08x  %-48s |%s|\n", mark, from, spaced(line), text)
	}
}

// latin has one character a byte.
func latin(b []byte) string {
	r := make([]rune, len(b))
	for i, x := range b {
		r[i] = rune(x)
	}
	return string(r)
}

func spaced(b []byte) string {
	pairs := make([]string, len(b))
	for i := range b {
		pairs[i] = hex.EncodeToString(b[i : i+1])
	}
	return strings.Join(pairs, " ")
}
