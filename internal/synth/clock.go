package synth

import "container/heap"

// clock is virtual time: what is due, in order.
type clock struct {
	now   int64 // Unix nanoseconds
	queue due
	n     uint64
}

type moment struct {
	at int64
	n  uint64 // of two at once, the one that was asked for first
	do func()
}

type due []moment

func (d due) Len() int           { return len(d) }
func (d due) Less(i, j int) bool { return d[i].at < d[j].at || d[i].at == d[j].at && d[i].n < d[j].n }
func (d due) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *due) Push(x any)        { *d = append(*d, x.(moment)) } //nolint:forcetypeassert // by heap
func (d *due) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = moment{}
	*d = (*d)[:len(*d)-1]
	return last
}

// after does something some nanoseconds from now.
func (c *clock) after(wait int64, do func()) {
	c.n++
	heap.Push(&c.queue, moment{c.now + max(wait, 0), c.n, do})
}

// step does what is due next; false: nothing is.
func (c *clock) step() bool {
	if len(c.queue) == 0 {
		return false
	}
	m := heap.Pop(&c.queue).(moment) //nolint:forcetypeassert // of moments
	c.now = m.at
	m.do()
	return true
}
