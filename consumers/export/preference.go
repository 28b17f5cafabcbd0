package export

import (
	"cmp"
	"io"
	"reflect"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// preference pairs the trajectories of a group by their rewards: the best with
// the worst, the second with the second worst, and so on, while the difference is
// more than nothing and no less than the margin. Groups come when the last of
// their members has; those that were never decided come at the end.
type preference struct {
	lines
	margin float64
	groups map[subjects.GroupID]*[]candidate
	order  []subjects.GroupID
}

// candidate is what is kept of a trajectory until its group is whole.
type candidate struct {
	messages []Message
	meta     Metadata
	slot     subjects.Slot
}

func newPreference(w io.Writer, margin float64) Writer {
	return &preference{lines: newLines(w), margin: margin, groups: map[subjects.GroupID]*[]candidate{}}
}

// pair is a line, in the conversational form of preference trainers.
type pair struct {
	Prompt         []Message `json:"prompt"`
	Chosen         []Message `json:"chosen"`
	Rejected       []Message `json:"rejected"`
	ChosenReward   float64   `json:"chosen_reward"`
	RejectedReward float64   `json:"rejected_reward"`
	Group          string    `json:"group"`
	ChosenID       string    `json:"chosen_id"`
	RejectedID     string    `json:"rejected_id"`
	Environment    string    `json:"environment"`
}

func (p *preference) Write(r *Record, _ subjects.Address) error {
	if r.Kind != subjects.Train || !r.Status.Trained() || len(r.Messages) == 0 || r.Fate == nil || !r.Fate.Member {
		return nil
	}
	have := p.groups[r.Group]
	if have == nil {
		have = &[]candidate{}
		p.groups[r.Group], p.order = have, append(p.order, r.Group)
	}
	*have = append(*have, candidate{conversation(r.Messages), metadata(r), r.Slot})
	if len(*have) < r.Fate.members {
		return nil
	}
	return p.group(r.Group)
}

// group writes the pairs of a group and forgets it.
func (p *preference) group(g subjects.GroupID) error {
	all := *p.groups[g]
	delete(p.groups, g)
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.meta.Reward, a.meta.Reward), cmp.Compare(a.slot, b.slot))
	})
	for i, k := 0, len(all)-1; i < k; i, k = i+1, k-1 {
		best, worst := &all[i], &all[k]
		if d := best.meta.Reward - worst.meta.Reward; d <= 0 || d < p.margin {
			break
		}
		n := shared(best.messages, worst.messages)
		if n == len(best.messages) || n == len(worst.messages) || reflect.DeepEqual(best.messages, worst.messages) {
			continue // they said the same: nothing to prefer
		}
		err := p.enc.Encode(pair{Prompt: best.messages[:n], Chosen: best.messages[n:], Rejected: worst.messages[n:],
			ChosenReward: best.meta.Reward, RejectedReward: worst.meta.Reward, Group: string(g),
			ChosenID: best.meta.ID, RejectedID: worst.meta.ID, Environment: best.meta.Environment})
		if err != nil {
			return err
		}
	}
	return nil
}

// shared is how many messages two conversations begin with, up to the first word of the model.
func shared(a, b []Message) int {
	n := 0
	for n < len(a) && n < len(b) && a[n].Role != "assistant" && b[n].Role != "assistant" && a[n].Content == b[n].Content {
		n++
	}
	return n
}

// Close writes what a filter left of groups.
func (p *preference) Close() error {
	for _, g := range p.order {
		if p.groups[g] != nil {
			if err := p.group(g); err != nil {
				return err
			}
		}
	}
	return nil
}
