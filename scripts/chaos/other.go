//go:build !linux

package main

import (
	"errors"
	"os/exec"
)

// start starts a process.
func start(cmd *exec.Cmd) (exited <-chan error, err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// volume is a small file system for a store, on Linux.
type volume struct{}

func newVolume(string) (*volume, error) { return nil, errors.New("this fault takes Linux and root") }
func (v *volume) fill() error           { return nil }
func (v *volume) free() error           { return nil }
func (v *volume) remove()               {}
