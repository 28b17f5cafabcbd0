package index

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/subjects"
)

// Group is a group as a list shows it.
type Group struct {
	Group       string                  `json:"group"`
	Kind        subjects.Kind           `json:"kind"`
	Round       int32                   `json:"round"`
	Outcome     string                  `json:"outcome"`
	Step        int32                   `json:"step"` // that trained on it; 0: none
	Environment string                  `json:"environment"`
	Opened      show.Number             `json:"opened"` // Unix seconds
	Closed      show.Number             `json:"closed"`
	Size        int                     `json:"size"` // slots
	Arrived     int                     `json:"arrived"`
	RewardMean  show.Number             `json:"reward_mean"`
	RewardStd   show.Number             `json:"reward_std"`
	Rewards     []show.Number           `json:"rewards"` // by slot, null where there is none
	Statuses    map[subjects.Status]int `json:"statuses"`
	Tokens      uint64                  `json:"tokens"`
	MinVersion  int32                   `json:"min_version"`
	MaxVersion  int32                   `json:"max_version"`
	Staleness   *int32                  `json:"staleness"` // in steps, of its oldest token
	Seconds     show.Number             `json:"seconds"`
	Unused      uint32                  `json:"unused"` // that arrived and are no member, as the verdict counts
	LedgerSeq   uint32                  `json:"-"`
	// Match is the text around what was searched for.
	Match string `json:"match,omitempty"`
}

// Page is a part of a list.
type Page struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next"` // the next page's cursor; empty: this is the last
	// Total is how many there are; null when a search has not looked at all.
	Total   *int    `json:"total"`
	Indexed Stats   `json:"indexed"`
	TookMS  float64 `json:"took_ms"`
}

// List answers a query. Bodies are read by fetch, where a text is searched for, for
// about budget; a page may then end before it is full, with a cursor to go on.
func (x *Index) List(ctx context.Context, q *Query, fetch Fetch, budget time.Duration) (*Page, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	limit := defaultLimit
	if q.Limit > 0 {
		limit = min(q.Limit, mostLimit)
	}
	var page *Page
	var err error
	if page = x.newest(q, limit); page == nil {
		page = x.list(q, limit)
	}
	if page == nil {
		if page, err = x.search(ctx, q, limit, fetch, budget); err != nil {
			return nil, err
		}
	}
	page.TookMS = float64(time.Since(began).Microseconds()) / 1e3
	return page, nil
}

// list is a page that the rows alone give; nil where words are searched for.
func (x *Index) list(q *Query, limit int) *Page {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, named := x.named(q.Text)
	if q.Text != "" && !named {
		return nil
	}
	chosen, more, total, now := x.first(q, limit)
	if named {
		chosen, more, total = []place{{0, i}}, false, 1
	}
	page := &Page{Groups: []Group{}, Indexed: x.stats(), Total: &total}
	for _, p := range chosen {
		page.Groups = append(page.Groups, x.view(&x.groups[p.group], now))
	}
	if n := len(chosen); more && n > 0 {
		page.Next = q.cursor(chosen[n-1], x.groups[chosen[n-1].group].id, now)
	}
	return page
}

var ids = regexp.MustCompile(`^(t\d+|e\d+-\d+)(/\d+/\d+)?$`)

// named finds the group that a text names, by its id or by that of a trajectory of it.
func (x *Index) named(text string) (i uint32, ok bool) {
	if ids.MatchString(text) {
		id, _, _ := strings.Cut(text, "/")
		i, ok = x.by[id]
	}
	return i, ok
}

const mostSlots = 512 // of a group whose rewards are listed

func (x *Index) view(g *group, now int64) Group {
	v := Group{Group: g.id, Kind: subjects.Train, Round: g.round, Outcome: outcomes[g.outcome], Step: g.step, Environment: x.environments.list[g.environment],
		Opened: seconds(g.opened), Closed: seconds(g.closed), Arrived: int(g.arrived), RewardMean: show.Number(g.mean), RewardStd: show.Number(g.std),
		Statuses: map[subjects.Status]int{}, Tokens: g.tokens, MinVersion: g.minVersion, MaxVersion: g.maxVersion, Seconds: show.Number(g.seconds(now)), Unused: g.unused, LedgerSeq: g.ledger}
	if g.environment == 0 {
		v.Environment = x.cfg.Environment
	}
	if g.first > 0 {
		v.Size = int(g.topSlot) + 1
	}
	if g.eval {
		v.Kind = subjects.Eval
	} else {
		v.Size = max(v.Size, x.cfg.GroupSize)
	}
	if g.step > 0 && g.minVersion >= 0 {
		s := max(0, g.step-1-g.minVersion)
		v.Staleness = &s
	}
	v.Rewards = make([]show.Number, min(v.Size, mostSlots))
	for i := range v.Rewards {
		v.Rewards[i] = none
	}
	x.each(g, func(_ uint32, r *row) {
		if r.is(isDead) {
			return
		}
		v.Statuses[statuses[r.status]]++
		if g.counts(r) && int(r.slot) < len(v.Rewards) {
			v.Rewards[r.slot] = show.Number(r.reward)
		}
	})
	return v
}
