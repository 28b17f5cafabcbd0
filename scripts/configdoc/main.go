// Command configdoc writes the configuration reference, docs/configuration.md,
// to stdout. Run it from the repository's root: `make docs`.
//
// One idea explains its shape: a field is documented where it is declared, and
// its default is whatever the code makes of an empty recipe; this program only
// brings the two together.
package main

import (
	"fmt"
	"os"
)

func main() {
	page, err := generate(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "configdoc: "+err.Error())
		os.Exit(1)
	}
	fmt.Print(page)
}
