package app

import (
	"runtime"
	"runtime/debug"

	"github.com/headrace/headrace/subjects"
)

// Build says what a binary is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Schema   int    `json:"schema"`
	Go       string `json:"go"`
}

// BuildInfo reads the binary's own build information.
func BuildInfo() Build {
	b := Build{Version: "devel", Revision: "unknown", Schema: subjects.SchemaVersion, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
