// Package ring is a fixed number of equal slots of memory that one process
// fills and another reads.
//
// One idea explains its shape: a slot has one owner at a time. It is free, then
// the filler's, then held by the reader until that gives it back; only the
// owner touches its bytes. Where the system has anonymous files the memory is
// one, sealed in size, whose descriptor the reader maps; elsewhere it is plain
// memory. Pages are used as slots are, so slots may be generous.
package ring

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// State is who owns a slot.
type State uint8

// The states of a slot, in the order it passes through them.
const (
	Free   State = iota // nobody
	Filled              // the filler: being filled, or ready
	Held                // the reader
)

// Ring is the slots. Its methods are safe for concurrent use; Close is for the
// last user.
type Ring struct {
	mem       []byte
	file      *os.File // nil for plain memory
	slotBytes int
	free      chan int

	mu    sync.Mutex
	state []State
}

// New makes a ring of n slots of slotBytes bytes, a multiple of the page size.
// shared asks for memory with a descriptor; see [Ring.File] for whether it
// worked.
func New(n, slotBytes int, shared bool) (*Ring, error) {
	r := &Ring{slotBytes: slotBytes, free: make(chan int, n), state: make([]State, n)}
	var err error
	if shared {
		r.mem, r.file, err = sharedMemory(n * slotBytes)
	}
	if r.file == nil {
		r.mem, err = plainMemory(n * slotBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("make ring of %d x %d bytes: %w", n, slotBytes, err)
	}
	for i := range n {
		r.free <- i
	}
	return r, nil
}

// File is the memory's file, which the ring keeps; nil for plain memory.
func (r *Ring) File() *os.File { return r.file }

// Slots is the number of slots.
func (r *Ring) Slots() int { return len(r.state) }

// SlotBytes is the size of a slot.
func (r *Ring) SlotBytes() int { return r.slotBytes }

// Slot is the memory of a slot.
func (r *Ring) Slot(i int) []byte {
	return r.mem[i*r.slotBytes : (i+1)*r.slotBytes : (i+1)*r.slotBytes]
}

// Acquire waits for a free slot and makes it the filler's.
func (r *Ring) Acquire(ctx context.Context) (int, error) {
	select {
	case i := <-r.free:
		r.set(i, Filled)
		return i, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Hold hands a filled slot to the reader.
func (r *Ring) Hold(i int) { r.set(i, Held) }

// Release frees a slot that the reader holds; any other is an error.
func (r *Ring) Release(i int) error { return r.move(i, Held) }

// Return frees a slot that the filler has.
func (r *Ring) Return(i int) error { return r.move(i, Filled) }

func (r *Ring) move(i int, from State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < 0 || i >= len(r.state) || r.state[i] != from {
		return fmt.Errorf("free slot %d: it is not in use", i)
	}
	r.state[i] = Free
	r.free <- i // has room for all
	return nil
}

func (r *Ring) set(i int, s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state[i] = s
}

// Count is the number of slots in a state.
func (r *Ring) Count(s State) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.state {
		if x == s {
			n++
		}
	}
	return n
}

// Close gives the memory back. A reader's own map stays valid.
func (r *Ring) Close() error {
	err := unmap(r.mem)
	r.mem = nil
	if r.file != nil {
		err = firstError(err, r.file.Close())
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
