package index

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Range is a pair of bounds, both included; the zero value is no restriction.
type Range struct {
	Set      bool
	Min, Max float64
}

func (r Range) has(v float64) bool { return !r.Set || v >= r.Min && v <= r.Max }

// Query chooses groups. Of a list one must fit, of the fields all.
type Query struct {
	Kinds        []string // train, eval
	Outcomes     []string // of the ledger; open while there is none, evaluated
	Environments []string
	Statuses     []string // one of its trajectories has it
	Step         Range    // that trained on it
	Version      Range    // of its tokens: the two spans meet
	Reward, Std  Range
	Unused       bool   // more arrived than it closed with: late, double, beyond its size
	Text         string // words that one of its trajectories has; in quotes, as they stand
	Sort         string // see [Sorts]; empty: newest
	Limit        int    // default 50, at most 500
	Cursor       string // what the page before gave
}

// Sorts are the orders of a list. All but oldest have the largest first.
var Sorts = []string{"newest", "oldest", "reward", "std", "tokens", "age"}

// Kinds and Outcomes are what a query may name.
var (
	Kinds    = []string{string(subjects.Train), string(subjects.Eval)}
	Outcomes = outcomes[:len(outcomes)-1]
)

const (
	defaultLimit = 50
	mostLimit    = 500
)

// Validate reports the first value that means nothing.
func (q *Query) Validate() error {
	for _, list := range []struct {
		name        string
		given, want []string
	}{{"kind", q.Kinds, Kinds}, {"outcome", q.Outcomes, Outcomes}, {"status", q.Statuses, statusNames()}, {"sort", given(q.Sort), Sorts}} {
		for _, v := range list.given {
			if !slices.Contains(list.want, v) {
				return fmt.Errorf("%s %q: want one of %s", list.name, v, strings.Join(list.want, ", "))
			}
		}
	}
	if q.Text != "" && len(newNeedle(q.Text).words) == 0 {
		return fmt.Errorf("text %q has no word to search for", q.Text)
	}
	_, _, err := q.start()
	return err
}

func given(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func statusNames() (list []string) {
	for _, s := range statuses {
		list = append(list, string(s))
	}
	return list
}

// filter is a query that is ready to be asked of many groups.
type filter struct {
	q        *Query
	outcomes uint16
	statuses uint8
	envs     map[uint16]bool
	train    bool
	eval     bool
}

func (x *Index) filter(q *Query) filter {
	f := filter{q: q, envs: x.environments.numbers(q.Environments)}
	for _, o := range q.Outcomes {
		f.outcomes |= 1 << number(outcomes, o)
	}
	for _, s := range q.Statuses {
		f.statuses |= 1 << number(statuses, subjects.Status(s))
	}
	f.train = len(q.Kinds) == 0 || slices.Contains(q.Kinds, string(subjects.Train))
	f.eval = len(q.Kinds) == 0 || slices.Contains(q.Kinds, string(subjects.Eval))
	return f
}

func (f *filter) takes(g *group) bool {
	q := f.q
	switch {
	case g.eval && !f.eval, !g.eval && !f.train,
		f.outcomes != 0 && f.outcomes&(1<<g.outcome) == 0,
		f.statuses != 0 && f.statuses&g.statuses == 0,
		q.Unused && g.unused == 0,
		f.envs != nil && !f.envs[g.environment],
		q.Step.Set && (g.step == 0 || !q.Step.has(float64(g.step))),
		q.Version.Set && (g.minVersion < 0 || float64(g.maxVersion) < q.Version.Min || float64(g.minVersion) > q.Version.Max),
		q.Reward.Set && !q.Reward.has(float64(g.mean)),
		q.Std.Set && !q.Std.has(float64(g.std)):
		return false
	}
	return true
}

// place is a group in an order: the smaller key is first, and of equal ones the
// one that was seen later.
type place struct {
	key   float64
	group uint32
}

func before(a, b place) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(b.group, a.group)
}

// key is a group's place in an order; what has no such value comes last.
func key(g *group, sort string, now int64) float64 {
	v := 0.0
	switch sort {
	case "oldest":
		return float64(g.newest)
	case "reward":
		v = float64(g.mean)
	case "std":
		v = float64(g.std)
	case "tokens":
		v = float64(g.tokens)
	case "age":
		v = g.seconds(now)
	default:
		v = float64(g.newest)
	}
	if math.IsNaN(v) {
		return math.Inf(1)
	}
	return -v
}

// seconds is how long it took, or has taken so far.
func (g *group) seconds(now int64) float64 {
	switch {
	case g.opened == 0:
		return math.NaN()
	case g.closed > 0:
		return float64(g.closed-g.opened) / 1e9
	case g.outcome == evaluated:
		return math.NaN()
	}
	return float64(now-g.opened) / 1e9
}

// cursor names the last group of a page, and the time by which its order was made.
func (q *Query) cursor(p place, id string, now int64) string {
	text := strconv.FormatUint(math.Float64bits(p.key), 36) + " " + strconv.FormatInt(now, 36) + " " + id
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// start reads the query's cursor: the key, the group's id before the page and
// the time of the first page.
func (q *Query) start() (at struct {
	key float64
	id  string
}, now int64, err error) {
	if q.Cursor == "" {
		return at, time.Now().UnixNano(), nil
	}
	bad := fmt.Errorf("cursor %.40q is none of a page's: ask for the first page again", q.Cursor)
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return at, 0, bad
	}
	parts := strings.SplitN(string(text), " ", 3)
	if len(parts) != 3 {
		return at, 0, bad
	}
	bits, err1 := strconv.ParseUint(parts[0], 36, 64)
	now, err2 := strconv.ParseInt(parts[1], 36, 64)
	if err1 != nil || err2 != nil {
		return at, 0, bad
	}
	at.key, at.id = math.Float64frombits(bits), parts[2]
	return at, now, nil
}

// chosen hands the groups that a query chooses to fn, those that were seen last
// first, and with each the place that its page begins behind. It returns of what
// time ages are.
func (x *Index) chosen(q *Query, fn func(p, behind place)) (now int64) {
	at, now, _ := q.start()
	behind := place{math.Inf(-1), math.MaxUint32} // all
	if at.id != "" {
		behind = place{at.key, x.by[at.id]}
	}
	f := x.filter(q)
	for i := len(x.groups) - 1; i >= 0; i-- {
		if g := &x.groups[i]; f.takes(g) {
			fn(place{key(g, q.Sort, now), uint32(i)}, behind)
		}
	}
	return now
}

// ordered are the groups that a query chooses, in its order, the place at which
// its page begins, and the time that ages are of.
func (x *Index) ordered(q *Query) (list []place, from int, now int64) {
	passed := 0
	now = x.chosen(q, func(p, behind place) {
		if list = append(list, p); before(p, behind) <= 0 {
			passed++
		}
	})
	slices.SortFunc(list, before)
	return list, passed, now
}

// first are the first n groups of a query's page, in its order, whether there are
// more, and how many it chooses in all.
func (x *Index) first(q *Query, n int) (page []place, more bool, total int, now int64) {
	page = make([]place, 0, 2*n)
	full := false // page[n-1] is the last of n in order
	now = x.chosen(q, func(p, behind place) {
		total++
		if before(p, behind) <= 0 || full && before(p, page[n-1]) > 0 {
			more = more || full
			return
		}
		if page = append(page, p); len(page) == 2*n {
			slices.SortFunc(page, before)
			page, full, more = page[:n], true, true
		}
	})
	slices.SortFunc(page, before)
	if len(page) > n {
		page, more = page[:n], true
	}
	return page, more, total, now
}
