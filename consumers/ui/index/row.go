package index

// row is what is kept of a trajectory.
type row struct {
	seq        uint32 // of its message in ROLLOUTS
	group      uint32 // its place in groups
	next       uint32 // the group's next row, plus one; 0: it is the last
	tokens     uint32
	reward     float32
	advantage  float32
	minVersion int32
	maxVersion int32
	index      uint16 // its place in the message
	slot       uint16
	attempt    uint16
	producer   uint16
	status     uint8
	flags      uint8
}

const (
	isMember  = 1 << iota // a verdict names it
	isMasked              // it counts for the baseline, and is not trained on
	hasWeight             // a batch gave it an advantage
	ledgerRow             // its header has not been seen: purged, or still to come
	isDead                // another row took its place
)

func (r *row) is(flag uint8) bool { return r.flags&flag != 0 }

const blockRows = 1 << 15

// blocks is a list that grows without being copied and gives no room away.
type blocks[T any] struct {
	all [][]T
	n   int
}

func (b *blocks[T]) at(i uint32) *T { return &b.all[i/blockRows][i%blockRows] }

func (b *blocks[T]) add(v T) uint32 {
	if b.n == len(b.all)*blockRows {
		b.all = append(b.all, make([]T, blockRows))
	}
	i := uint32(b.n)
	b.n++
	*b.at(i) = v
	return i
}

// names gives texts numbers: 0 is none, and beyond its bound all are 1, "other".
type names struct {
	list []string
	by   map[string]uint16
	most int
}

func newNames(most int) names {
	return names{list: []string{"", "other"}, by: map[string]uint16{}, most: most}
}

func (n *names) number(s string) uint16 {
	if i, ok := n.by[s]; ok {
		return i
	}
	if len(n.list) >= n.most {
		return 1
	}
	i := uint16(len(n.list))
	n.list, n.by[s] = append(n.list, s), i
	return i
}

// numbers looks texts up; those that are not there choose nothing.
func (n *names) numbers(list []string) map[uint16]bool {
	if len(list) == 0 {
		return nil
	}
	out := map[uint16]bool{}
	for _, s := range list {
		if i, ok := n.by[s]; ok {
			out[i] = true
		}
	}
	return out
}
