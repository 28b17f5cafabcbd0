package nice

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// kernelBias is what the kernel answers for nice value 0: its call gives 20 less the value.
const kernelBias = 20

// giveWay goes through the threads, since on Linux each has a value of its own and
// a new one that of the thread that starts it. It looks again until a look finds
// nothing to do: one that was not lowered yet may have started another meanwhile.
func giveWay(to int) error {
	for lowered := true; lowered; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("lower the priority: %w", err)
		}
		lowered = false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				continue // no thread
			}
			did, err := lower(id, to)
			if err != nil {
				return fmt.Errorf("lower the priority of thread %d: %w", id, err)
			}
			lowered = lowered || did
		}
	}
	return nil
}

// lower reports whether there was anything to do. A thread that has ended is none.
func lower(thread, to int) (did bool, err error) {
	is, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	if err == nil && kernelBias-is < to {
		did = true
		err = unix.Setpriority(unix.PRIO_PROCESS, thread, to)
	}
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return did, err
}
