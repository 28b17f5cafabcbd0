package nice

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGiveWay_EveryThreadAndThoseToCome: this process gives way, for good, and no
// other test of this package needs it quick.
func TestGiveWay_EveryThreadAndThoseToCome(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	for range 8 {
		thread(done)
	}
	if err := GiveWay(Reader); err != nil {
		t.Fatal(err)
	}
	for id, value := range values(t) {
		if value < Reader {
			t.Errorf("thread %d has the nice value %d, want %d", id, value, Reader)
		}
	}
	for range 8 {
		id := thread(done)
		if value := values(t)[id]; value < Reader {
			t.Errorf("thread %d, which started later, has the nice value %d, want %d", id, value, Reader)
		}
	}
	if err := GiveWay(Reader + 2); err != nil {
		t.Fatal(err)
	}
	if err := GiveWay(Reader - 5); err != nil {
		t.Fatal(err)
	}
	for id, value := range values(t) {
		if value < Reader+2 {
			t.Errorf("asked to give way less, thread %d went from %d to %d", id, Reader+2, value)
		}
	}
	if err := GiveWay(100); err != nil {
		t.Fatal(err)
	}
	if value := values(t)[unix.Getpid()]; value != Highest {
		t.Errorf("asked for more than there is, the nice value is %d, want %d", value, Highest)
	}
}

// thread is a thread of its own, until done.
func thread(done chan struct{}) int {
	var at sync.WaitGroup
	at.Add(1)
	id := 0
	go func() {
		runtime.LockOSThread() // never given back: it ends with the goroutine
		id = unix.Gettid()
		at.Done()
		<-done
	}()
	at.Wait()
	return id
}

// values are the nice values of all threads, as the kernel lists them.
func values(t *testing.T) map[int]int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d threads: %v", len(files), err)
	}
	all := map[int]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		id, err1 := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		value, err2 := strconv.Atoi(fields[16]) // the 19th, without number and name
		if err := errors.Join(err1, err2); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all[id] = value
	}
	return all
}
