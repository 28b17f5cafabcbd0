package main

import (
	"container/heap"
	"time"
)

// work is what both the engine and the ideal are given.
type work struct {
	seed           uint64
	episodes, live int
	steps, batch   int
	pass           time.Duration
}

// event is an episode whose environment answers at a time.
type event struct {
	at      time.Duration
	episode int
	step    int // steps done
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// ideal plays the work without any overhead: an accelerator that starts a pass
// of up to batch calls the moment it is free and a call is there, environments
// that answer exactly when their latency is over, episodes that follow each
// other at once. It returns the wall time and the number of passes.
func ideal(w work) (wall time.Duration, passes int) {
	var thinking events // environments at work
	var queue []event   // calls that wait for the accelerator
	next := 0
	for ; next < min(w.live, w.episodes); next++ {
		queue = append(queue, event{episode: next})
	}
	now := time.Duration(0)
	for len(queue) > 0 || thinking.Len() > 0 {
		if len(queue) == 0 {
			now = thinking[0].at
		}
		next = arrive(w, &thinking, &queue, now, next)
		if len(queue) == 0 {
			continue
		}
		n := min(w.batch, len(queue))
		now += w.pass
		passes++
		for _, e := range queue[:n] {
			heap.Push(&thinking, event{at: now + latency(w.seed, uint64(e.episode), uint64(e.step)), episode: e.episode, step: e.step + 1})
		}
		queue = queue[n:]
		next = arrive(w, &thinking, &queue, now, next)
	}
	return now, passes
}

// arrive moves what the environments have answered by now to the queue; a
// finished episode makes room for the next.
func arrive(w work, thinking *events, queue *[]event, now time.Duration, next int) int {
	for thinking.Len() > 0 && (*thinking)[0].at <= now {
		e := heap.Pop(thinking).(event)
		switch {
		case e.step < w.steps:
			*queue = append(*queue, e)
		case next < w.episodes:
			*queue = append(*queue, event{episode: next})
			next++
		}
	}
	return next
}
