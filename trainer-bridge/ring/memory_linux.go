package ring

import (
	"os"

	"golang.org/x/sys/unix"
)

// sharedMemory is an anonymous file of size bytes whose size is sealed, and
// which nobody but this map may write to. A system without such files gives none.
func sharedMemory(size int) ([]byte, *os.File, error) {
	fd, err := unix.MemfdCreate("headrace-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, nil // plain memory then
	}
	file := os.NewFile(uintptr(fd), "headrace-ring")
	mem, err := mapSealed(fd, size)
	if err != nil {
		return nil, nil, firstError(err, file.Close())
	}
	return mem, file, nil
}

func mapSealed(fd, size int) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	// Old kernels lack this seal; a reader that maps read-only needs it not.
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
	return mem, nil
}
