//go:build !linux

package main

import "os/exec"

// start starts a process.
func start(cmd *exec.Cmd) (exited <-chan error, err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}
