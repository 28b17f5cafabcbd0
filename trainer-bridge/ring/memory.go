package ring

import "golang.org/x/sys/unix"

// plainMemory is anonymous memory; pages are taken when they are written.
func plainMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmap(mem []byte) error { return unix.Munmap(mem) }
