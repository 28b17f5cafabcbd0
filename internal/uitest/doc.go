// Package uitest looks at the pages of `headrace ui` the way a person does: in a
// real browser, by clicking.
//
// One idea explains its shape: a page is never asked what it holds, only what can
// be seen, read aloud, reached by keyboard or heard in the console. So the tests
// (build tag browser, `make test-browser`) outlive any rewrite of the pages, and
// the same browser takes the pictures of the README (scripts/photograph).
package uitest
