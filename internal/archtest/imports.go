package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// stages meet on the bus alone.
var stages = []string{"producers", "grouper", "trainer-bridge", "consumers"}

// layer is a folder and the folders of the repository that it may import. The
// most specific layer counts.
type layer struct {
	dir   string
	allow []string
}

// layers is the direction: cmd, cli, app, stages, bus, subjects. A package may
// import its own layer's folder below it unless another layer says otherwise.
var layers = []layer{
	{"cmd", []string{"internal/cli"}},
	{"internal/cli", []string{"internal/app", "internal/audit", "internal/regroup", "internal/auth", "internal/nice", "internal/recipe", "internal/bus", "subjects", "envs"}},
	{"internal/app", []string{"producers", "grouper", "trainer-bridge", "consumers", "envs", "internal/audit", "internal/regroup", "internal/metrics", "internal/recipe", "internal/bus", "subjects"}},
	{"internal/recipe", []string{"subjects", "envs", "grouper", "grouper/dataset", "producers/agents", "trainer-bridge/layout"}},
	{"internal/audit", []string{"grouper", "internal/recipe", "producers/tokenizer", "envs", "internal/bus", "subjects"}},
	{"internal/regroup", []string{"internal/audit", "internal/recipe", "grouper", "internal/bus", "subjects"}},
	{"internal/bus", []string{"subjects"}},
	{"internal/auth", []string{"subjects"}},
	{"internal/spans", []string{"internal/bus", "subjects"}},
	{"internal/metrics", []string{"internal/bus", "subjects"}},
	{"internal/natstest", []string{"internal/bus", "subjects"}},
	{"internal/archtest", nil},
	{"internal/nice", nil},
	{"subjects", nil},
	{"envs", nil},
	{"producers/tokenizer", []string{"envs"}},
	{"producers/ledger", []string{"subjects", "producers/tokenizer", "envs"}},
	{"producers", []string{"producers", "envs", "internal/bus", "internal/spans", "subjects"}},
	{"grouper/service", []string{"grouper", "internal/bus", "internal/spans", "subjects"}},
	{"grouper/dataset", nil},
	{"grouper", []string{"subjects", "grouper/dataset"}},
	{"trainer-bridge/layout", []string{"subjects"}},
	{"trainer-bridge/ring", nil},
	{"trainer-bridge/feed", []string{"subjects", "trainer-bridge/layout"}},
	{"trainer-bridge", []string{"trainer-bridge", "internal/bus", "internal/spans", "subjects"}},
	{"consumers", []string{"consumers", "grouper", "trainer-bridge/layout", "internal/bus", "subjects"}},
}

// under reports whether dir is folder or lies in it.
func under(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

func layerOf(dir string) (layer, bool) {
	best, found := layer{}, false
	for _, l := range layers {
		if under(dir, l.dir) && len(l.dir) >= len(best.dir) {
			best, found = l, true
		}
	}
	return best, found
}

// local is the folder of an imported package of this repository.
func local(imported string) (string, bool) { return strings.CutPrefix(imported, Module+"/") }

// direction wants imports to go down the layers, and stages apart. What only
// tests see may also import what helps tests, and a stage's tests the bus.
func direction(f *File) []string {
	dir := f.Dir()
	l, ok := layerOf(dir)
	if !ok {
		return nil // scripts, whole-program tests: above everything
	}
	var faults []string
	for _, imported := range f.Imports() {
		to, ok := local(imported)
		if !ok {
			continue
		}
		target, _ := layerOf(to)
		switch {
		case stageOf(dir) != "" && stageOf(to) != "" && stageOf(dir) != stageOf(to) && !readsCore(dir, to):
			faults = append(faults, fmt.Sprintf("%s imports %s: stages meet on the bus", f.Path, to))
		case target.dir == l.dir, allowed(l, to), f.Test() && (helper(to) || strings.HasPrefix(to, "internal/") || stageOf(dir) == stageOf(to) && stageOf(dir) != ""):
		default:
			faults = append(faults, fmt.Sprintf("%s imports %s: %s may import %v", f.Path, to, l.dir, l.allow))
		}
	}
	return faults
}

// readsCore: consumers replay the pure core of grouping; they are no stage's peer.
func readsCore(from, to string) bool {
	return stageOf(from) == "consumers" && (to == "grouper" || to == "trainer-bridge/layout")
}

// allowed reports whether a layer may import a folder: a listed one, what lies
// below a listed one, unless that is a layer of its own between the stage's
// inside and its edge.
func allowed(l layer, to string) bool {
	for _, a := range l.allow {
		if to == a || under(to, a) {
			return true
		}
	}
	return false
}

func stageOf(dir string) string {
	for _, s := range stages {
		if under(dir, s) {
			return s
		}
	}
	return ""
}

// pure packages are functions of their arguments: no broker, no logger, no stage.
var pure = []string{"subjects", "envs", "producers/tokenizer", "producers/ledger", "grouper", "trainer-bridge/layout"}

// purity keeps brokers, loggers and wiring out of pure packages. subjects alone
// may name JetStream, whose configurations it holds.
func purity(f *File) []string {
	dir := f.Dir()
	if f.Test() || under(dir, "grouper/service") || !slices.ContainsFunc(pure, func(p string) bool { return under(dir, p) }) {
		return nil
	}
	var faults []string
	for _, imported := range f.Imports() {
		nats := strings.HasPrefix(imported, "github.com/nats-io/") && !under(dir, "subjects")
		if nats || imported == "github.com/rs/zerolog" || imported == "log" || strings.HasPrefix(imported, Module+"/internal/") {
			faults = append(faults, fmt.Sprintf("%s imports %s: a pure package knows no broker, no logger, no wiring", f.Path, imported))
		}
	}
	return faults
}
