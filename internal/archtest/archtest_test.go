package archtest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTree_FollowsTheArchitecture applies every rule to this repository.
func TestTree_FollowsTheArchitecture(t *testing.T) {
	files, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("found %d files: not the repository", len(files))
	}
	faults, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// imports is a file that imports a package of the repository, or another one
// when the path has a host.
func imports(path string) string {
	if !strings.Contains(path, ".") && strings.Contains(path, "/") || path == "subjects" || path == "grouper" || path == "producers" {
		path = Module + "/" + path
	}
	return "package p\n\nimport _ \"" + path + "\"\n"
}

func TestRules_EachCanFail(t *testing.T) {
	for _, c := range []struct{ name, path, text, want string }{
		{"stage imports stage", "producers/x.go", imports("grouper"), "stages meet on the bus"},
		{"stage imports another's inside", "trainer-bridge/x.go", imports("producers/sglang"), "stages meet on the bus"},
		{"a test of a stage imports another", "grouper/x_test.go", imports("producers/agents"), "stages meet on the bus"},
		{"stage imports wiring", "grouper/service/x.go", imports("internal/app"), "may import"},
		{"bus imports a stage", "internal/bus/x.go", imports("producers"), "may import"},
		{"command line wires", "internal/cli/x.go", imports("producers/service"), "may import"},
		{"subjects import the bus", "subjects/x.go", imports("internal/bus"), "may import"},
		{"core imports its service", "grouper/x.go", imports("grouper/service"), "may import"},
		{"layout imports the bridge's feed", "trainer-bridge/layout/x.go", imports("trainer-bridge/feed"), "may import"},
		{"core knows NATS", "grouper/x.go", imports("github.com/nats-io/nats.go"), "knows no broker"},
		{"dataset knows NATS", "grouper/dataset/x.go", imports("github.com/nats-io/nats.go/jetstream"), "knows no broker"},
		{"environment knows NATS", "envs/lake/x.go", imports("github.com/nats-io/nats.go"), "knows no broker"},
		{"tokenizer logs", "producers/tokenizer/x.go", imports("github.com/rs/zerolog"), "knows no broker"},
		{"layout knows the bus", "trainer-bridge/layout/x.go", imports("internal/bus"), "knows no broker"},
		{"subject outside subjects", "internal/bus/x.go", "package bus\n\nconst s = \"hr.run.tasks\"\n", "x.go:3"},
		{"stream outside subjects", "grouper/service/x.go", "package service\n\nvar s = `hr_run_TASKS`\n", "x.go:3"},
		{"sleep in a test", "envs/x_test.go", "package envs\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "x_test.go:5"},
		{"large main", "cmd/headrace/main.go", "package main\n" + strings.Repeat("\n", 40), "at most 20"},
		{"large file", "envs/x.go", "package envs\n" + strings.Repeat("\n", 500), "at most 500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults, err := Check(fstest.MapFS{c.path: {Data: []byte(c.text)}})
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(faults, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("found %q, want a line with %q", all, c.want)
			}
		})
	}
}

func TestRules_LetPassWhatIsAllowed(t *testing.T) {
	for _, c := range []struct{ name, path, text string }{
		{"stage imports the bus", "producers/service/x.go", imports("internal/bus")},
		{"stage imports its own inside", "producers/service/x.go", imports("producers/pool")},
		{"service imports its core", "grouper/service/x.go", imports("grouper")},
		{"wiring imports stages", "internal/app/x.go", imports("trainer-bridge/feed")},
		{"recipe imports configurations", "internal/recipe/x.go", imports("grouper")},
		{"test imports what helps tests", "grouper/service/x_test.go", imports("internal/natstest")},
		{"subjects name JetStream", "subjects/x.go", imports("github.com/nats-io/nats.go/jetstream")},
		{"test spells a subject", "internal/bus/x_test.go", "package bus\n\nconst s = \"hr.run.tasks\"\n"},
		{"sleep in fake time", "envs/x_test.go", "package envs\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f() { synctest.Wait(); time.Sleep(1) }\n"},
		{"hidden folder", ".cache/x.go", "no Go at all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults, err := Check(fstest.MapFS{c.path: {Data: []byte(c.text)}})
			if err != nil || len(faults) > 0 {
				t.Errorf("found %q, %v", faults, err)
			}
		})
	}
}
