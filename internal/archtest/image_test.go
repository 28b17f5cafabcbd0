package archtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestImage_HasEveryFolderOfTheProgram: .dockerignore lets in what the program is
// made of; a package in a new folder would build everywhere but there.
func TestImage_HasEveryFolderOfTheProgram(t *testing.T) {
	files, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	folders := program(files)
	if len(folders) < 5 {
		t.Fatalf("the program is made of %v alone", folders)
	}
	for _, folder := range folders {
		if !slices.Contains(lines, "!"+folder) {
			t.Errorf(".dockerignore leaves out %s, which cmd/headrace is made of: add !%s", folder, folder)
		}
	}
}

// program lists the top folders of what cmd/headrace imports, directly or not.
func program(files []*File) (folders []string) {
	imports := map[string][]string{}
	for _, f := range files {
		if !f.Test() {
			imports[f.Dir()] = append(imports[f.Dir()], f.Imports()...)
		}
	}
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		if top, _, _ := strings.Cut(dir, "/"); !slices.Contains(folders, top) {
			folders = append(folders, top)
		}
		for _, path := range imports[dir] {
			if inside, ok := strings.CutPrefix(path, Module+"/"); ok {
				visit(inside)
			}
		}
	}
	visit("cmd/headrace")
	return folders
}
