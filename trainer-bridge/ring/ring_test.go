package ring

import (
	"context"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const page = 4096

func open(t *testing.T, n int, shared bool) *Ring {
	t.Helper()
	r, err := New(n, page, shared)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestRing_SlotHasOneOwnerAtATime(t *testing.T) {
	r := open(t, 2, false)
	a, _ := r.Acquire(t.Context())
	b, _ := r.Acquire(t.Context())
	if a == b {
		t.Fatalf("slot %d twice", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Acquire(ctx); err == nil {
		t.Fatal("a third of two slots")
	}
	if err := r.Release(a); err == nil {
		t.Fatal("released a slot that the reader does not hold")
	}
	r.Hold(a)
	if err := r.Release(a); err != nil {
		t.Fatal(err)
	}
	if err := r.Release(a); err == nil {
		t.Fatal("released twice")
	}
	if err := r.Release(7); err == nil {
		t.Fatal("released a slot that does not exist")
	}
	if err := r.Return(b); err != nil {
		t.Fatal(err)
	}
	if n := r.Count(Free); n != 2 {
		t.Fatalf("%d free", n)
	}
}

func TestRing_SharedMemoryIsSealedAndSeenByTheReader(t *testing.T) {
	r := open(t, 2, true)
	if r.File() == nil {
		if runtime.GOOS == "linux" {
			t.Fatal("no anonymous file on linux")
		}
		return
	}
	seen, err := unix.Mmap(int(r.File().Fd()), 0, 2*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(seen)
	copy(r.Slot(1), "batch")
	if string(seen[page:page+5]) != "batch" {
		t.Fatal("the reader does not see what was written")
	}
	if err := os.Truncate("/proc/self/fd/"+itoa(int(r.File().Fd())), page); err == nil {
		t.Fatal("the memory could be cut under its reader")
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}
