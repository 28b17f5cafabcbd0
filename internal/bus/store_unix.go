//go:build unix

package bus

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive lock that ends with the process.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// holdFile takes an exclusive lock on a file that is there. It ends when it is
// given back or the process ends, and goes to no child; nothing else ends it, so
// the descriptor is bare.
func holdFile(path string) (release func(), err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return sync.OnceFunc(func() { _ = unix.Close(fd) }), nil
}

// freeBytes is what an unprivileged user may still write on the folder's disk.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
