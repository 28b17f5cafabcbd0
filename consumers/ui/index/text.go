package index

import (
	"context"
	"math"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/subjects"
)

const (
	textMessages = 32
	textBytes    = 8 << 20
	textIdle     = 500 * time.Millisecond
)

// Read reads bodies and signs their words, the newest first, until ctx ends: what
// came since it last looked before what is older. It stops going back where there
// is no room for more. It is for one goroutine, and is started when somebody
// searches.
func (x *Index) Read(ctx context.Context, fetch Fetch) error {
	r := reading{Index: x, words: map[uint64]struct{}{}}
	for ctx.Err() == nil {
		began := time.Now()
		list, rows, size := r.next()
		wait := textIdle
		if len(list) > 0 {
			if err := r.sign(ctx, fetch, list, rows); err != nil {
				return err
			}
			wait = time.Duration(float64(size)/float64(x.cfg.TextRate)*float64(time.Second)) - time.Since(began)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reading is a goroutine that reads bodies.
type reading struct {
	*Index
	words map[uint64]struct{} // scratch
}

// Unread reports whether there are bodies that [Index.Read] is still to read.
func (x *Index) Unread() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := x.messages
	if len(all) == 0 {
		return false
	}
	first := x.from(uint32(min(x.purged, math.MaxUint32)))
	return x.high <= all[len(all)-1].seq || !x.signs.full() && first < len(all) && x.low > all[first].seq
}

// next are the trajectories to read next, their rows, and about how many bytes
// that is.
func (r *reading) next() (list []subjects.Address, rows []uint32, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.messages
	if len(all) == 0 {
		return nil, nil, 0
	}
	if r.high == 0 {
		r.high = all[len(all)-1].seq + 1
		r.low = r.high
	}
	take := func(m int) bool {
		end := uint32(r.rows.n)
		if m+1 < len(all) {
			end = all[m+1].row
		}
		for i := all[m].row; i < end; i++ {
			if row := r.rows.at(i); !row.is(isDead) && row.seq == all[m].seq {
				list, rows = append(list, subjects.Address{Seq: uint64(row.seq), Index: int(row.index)}), append(rows, i)
			}
		}
		size += int(all[m].size)
		return size < textBytes && len(list) < textMessages*64
	}
	n := 0
	for m := r.from(r.high); m < len(all) && n < textMessages; m++ {
		n++
		r.high = all[m].seq + 1
		if !take(m) {
			break
		}
	}
	if n > 0 || r.signs.full() {
		return list, rows, size
	}
	for m := r.from(r.low) - 1; m >= 0 && n < textMessages && uint64(all[m].seq) >= r.purged; m-- {
		n++
		r.low = all[m].seq
		if !take(m) {
			break
		}
	}
	return list, rows, size
}

// sign reads bodies and keeps their signatures.
func (r *reading) sign(ctx context.Context, fetch Fetch, list []subjects.Address, rows []uint32) error {
	signs := make([][]uint64, len(list))
	r.mu.RLock()
	epoch := r.epoch
	r.mu.RUnlock()
	err := fetch(ctx, list, func(i int, b *show.Body, err error) error {
		if err == nil {
			signs[i] = sign(b.Trajectory, r.words)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.epoch {
		return nil // rows have moved: few are lost
	}
	for i, s := range signs {
		if s != nil {
			r.signs.put(rows[i], s)
		}
	}
	return nil
}
