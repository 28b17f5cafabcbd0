//go:build linux

package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts a process that dies with the harness. The kernel ties that to the
// thread that started it, so the thread waits for it too.
func start(cmd *exec.Cmd) (exited <-chan error, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
