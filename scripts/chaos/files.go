package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// checkpoint is all that the trainer needs to go on.
type checkpoint struct {
	Step  subjects.Step `json:"step"`
	State string        `json:"state"`
	Sum   string        `json:"sum"` // of the two
}

func (c checkpoint) sum() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", c.Step, c.State))
	return hex.EncodeToString(sum[:])
}

// checkpointFiles are the checkpoints of a folder, oldest first; the Python
// trainer's are folders, of which this is the largest file.
func checkpointFiles(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, "step-*.json"))
	folders, _ := filepath.Glob(filepath.Join(dir, "step-*", "state.safetensors"))
	names = append(names, folders...)
	slices.Sort(names)
	return names
}

// latestCheckpoint is the newest that is whole; torn ones are passed over.
// fresh: there is none.
func latestCheckpoint(dir string) (c checkpoint, fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, true, err
	}
	names := checkpointFiles(dir)
	for _, name := range slices.Backward(names) {
		text, err := os.ReadFile(name)
		if err == nil && json.Unmarshal(text, &c) == nil && c.Sum == c.sum() {
			return c, false, nil
		}
		fmt.Fprintf(os.Stderr, "skip torn checkpoint %s\n", name)
	}
	return checkpoint{}, true, nil
}

// saveCheckpoint writes a checkpoint whole or not at all and removes old ones.
func saveCheckpoint(dir string, c checkpoint, keep int) (string, error) {
	c.Sum = c.sum()
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, fmt.Sprintf("step-%09d.json", c.Step))
	if err := writeWhole(name, text); err != nil {
		return "", fmt.Errorf("save checkpoint: %w", err)
	}
	for _, old := range outdated(checkpointFiles(dir), name, max(keep, 2)) {
		_ = os.Remove(old)
	}
	return name, nil
}

// outdated are all but the last few names up to the newest; those ahead of it
// are of a life that died, and go first.
func outdated(names []string, newest string, keep int) []string {
	slices.SortFunc(names, func(a, b string) int {
		if ahead := (a > newest) != (b > newest); ahead {
			return strings.Compare(b, a)
		}
		return strings.Compare(a, b)
	})
	return names[:max(0, len(names)-keep)]
}

// writeWhole writes, syncs and renames.
func writeWhole(name string, text []byte) error {
	if err := writeSynced(name+".tmp", text); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

func writeSynced(name string, text []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

const (
	weightsName  = "model.safetensors"
	weightsBytes = 16 << 10
	keptVersions = 8
)

// writeWeights publishes a version as the Python trainer does: a folder that
// appears whole. Its name is relative to root.
func writeWeights(root string, c checkpoint, publication int) ([]subjects.File, string, error) {
	name := ""
	for ; ; publication++ {
		name = fmt.Sprintf("v%06d-%d", c.Step, publication)
		if _, err := os.Stat(filepath.Join(root, name)); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	tmp, err := os.MkdirTemp(root, "."+name+"-")
	if err != nil {
		return nil, "", fmt.Errorf("write weights: %w", err)
	}
	data := contents(c.State)
	if err := errors.Join(os.Chmod(tmp, 0o755), writeSynced(filepath.Join(tmp, weightsName), data), syncFolder(tmp)); err != nil {
		return nil, "", fmt.Errorf("write weights: %w", err)
	}
	if err := errors.Join(os.Rename(tmp, filepath.Join(root, name)), syncFolder(root)); err != nil {
		return nil, "", fmt.Errorf("write weights: %w", err)
	}
	versions, _ := filepath.Glob(filepath.Join(root, "v*"))
	for _, old := range outdated(versions, filepath.Join(root, name), keptVersions) {
		_ = os.RemoveAll(old)
	}
	sum := sha256.Sum256(data)
	return []subjects.File{{Name: weightsName, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}}, name, nil
}

// contents are weights that follow from the state.
func contents(state string) []byte {
	draw := rand.NewChaCha8(sha256.Sum256([]byte(state)))
	data := make([]byte, weightsBytes)
	_, _ = draw.Read(data) // it never fails
	return data
}
