//go:build unix && !linux

package nice

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// giveWay lowers the process, whose threads share one value here.
func giveWay(to int) error {
	is, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil && is < to {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, to)
	}
	if err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	return nil
}
