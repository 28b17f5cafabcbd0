package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// volume is a small file system for a store. Mounting one takes root.
type volume struct{ dir string }

const volumeBytes = 128 << 20 // a server does not start with less than 64 MiB free

func newVolume(dir string) (*volume, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	_ = syscall.Unmount(dir, syscall.MNT_DETACH) // of a harness that was killed
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", volumeBytes)); err != nil {
		return nil, fmt.Errorf("mount a volume of %d MiB (this fault takes root): %w", volumeBytes>>20, err)
	}
	return &volume{dir}, nil
}

func (v *volume) ballast() string { return filepath.Join(v.dir, "ballast") }

// fill leaves not a byte.
func (v *volume) fill() error {
	f, err := os.Create(v.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for len(piece) > 0 {
		_, err := f.Write(piece)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			piece = piece[:len(piece)/2]
		case err != nil:
			return err
		}
	}
	return nil
}

func (v *volume) free() error { return os.Remove(v.ballast()) }

func (v *volume) remove() {
	if err := syscall.Unmount(v.dir, syscall.MNT_DETACH); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: unmount %s: %v\n", v.dir, err)
	}
}
