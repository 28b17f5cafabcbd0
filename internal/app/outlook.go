package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// place is a slot of a group.
type place struct {
	kind  subjects.Kind
	group subjects.GroupID
	slot  subjects.Slot
}

func placeOf(e *subjects.IndexEntry) place { return place{e.Kind, e.Group, e.Slot} }

// standing is what the log says of some groups, now.
type standing struct {
	low      uint64
	end      string
	verdicts map[subjects.GroupID]subjects.Outcome
	steps    map[subjects.GroupID]subjects.Step
	rounds   map[subjects.Step]bool // evaluations that are over
	issued   []subjects.Issue
	attempts map[place]subjects.Attempt // handed out again
	filled   map[place]string           // by which trajectory
	rejected map[string]bool            // kind/group/slot/attempt
	gate     *subjects.Gate
}

// outlook says of each trajectory that passes what the grouper will do with it,
// and makes it the slot's newest attempt where that one still counts.
func (m *member) outlook(ctx context.Context, cases []*revived) error {
	want := map[subjects.GroupID]bool{}
	for _, c := range cases {
		if c.fault == nil {
			want[c.entry.Group] = true
		}
	}
	if len(want) == 0 {
		return nil
	}
	s, err := m.standing(ctx, want)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if c.fault != nil {
			continue
		}
		if c.outlook = s.closed(&c.entry); c.outlook != "" {
			continue
		}
		if err := c.find(s, m.recipe.Grouper.Source == grouper.SourceExternal); err != nil {
			return err
		}
	}
	return nil
}

// find gives a trajectory its place in a group that is open.
func (c *revived) find(s *standing, external bool) error {
	p := placeOf(&c.entry)
	if !external && !s.has(&c.entry) {
		c.outlook = fmt.Sprintf("group %s was never issued: it will be counted as unknown", p.group)
		return nil
	}
	if by := s.filled[p]; by != "" {
		c.outlook = fmt.Sprintf("slot %d of group %s is filled by %s: it will be counted as a duplicate", p.slot, p.group, by)
		return nil
	}
	if !c.entry.Status.Trained() {
		c.outlook = fmt.Sprintf("it %s: it will be counted, and not trained on", c.entry.Status)
		return nil
	}
	if newest := s.attempts[p]; newest > c.entry.Attempt {
		if err := c.as(newest); err != nil {
			return err
		}
	}
	if s.rejected[string(p.kind)+"/"+c.entry.ID()] {
		c.fault = fmt.Errorf("it would pass, but attempt %d at slot %d of group %s was rejected, of which nothing more is taken, and no newer one is handed out: try again when it is, or leave it",
			c.entry.Attempt, p.slot, p.group)
		return nil
	}
	c.outlook = fmt.Sprintf("group %s is open: it takes slot %d unless attempt %d, which is handed out, comes first", p.group, p.slot, c.entry.Attempt)
	return nil
}

// closed says why a trajectory comes too late; empty: it does not.
func (s *standing) closed(e *subjects.IndexEntry) string {
	switch {
	case s.end != "":
		return fmt.Sprintf("the run has ended (%s): no grouper will take it", s.end)
	case e.Kind == subjects.Eval && s.rounds[e.Round]:
		return fmt.Sprintf("the evaluation after step %d is over: it will be counted as late", e.Round)
	case s.steps[e.Group] > 0:
		return fmt.Sprintf("group %s was trained in step %d: it will be counted as late", e.Group, s.steps[e.Group])
	case s.verdicts[e.Group] != "":
		return fmt.Sprintf("group %s is closed (%s): it will be counted as late", e.Group, strings.ReplaceAll(string(s.verdicts[e.Group]), "_", " "))
	}
	return ""
}

// has reports whether the group of an entry was issued.
func (s *standing) has(e *subjects.IndexEntry) bool {
	for _, i := range s.issued {
		if i.Kind != e.Kind {
			continue
		}
		if i.Kind == subjects.Eval && i.Round == e.Round {
			return true
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(string(e.Group), "t"), 10, 64)
		if i.Kind == subjects.Train && err == nil && n >= i.First && n-i.First < uint64(i.Count) {
			return true
		}
	}
	return false
}

// standing reads ledger, dead letters and what the ledger still needs of ROLLOUTS.
func (m *member) standing(ctx context.Context, want map[subjects.GroupID]bool) (*standing, error) {
	key, err := m.leaseKey(ctx)
	if err != nil {
		return nil, err
	}
	s := &standing{gate: subjects.NewGate(m.run, key), verdicts: map[subjects.GroupID]subjects.Outcome{}, steps: map[subjects.GroupID]subjects.Step{}, rounds: map[subjects.Step]bool{},
		attempts: map[place]subjects.Attempt{}, filled: map[place]string{}, rejected: map[string]bool{}}
	if err := entries(ctx, m.conn, m.run, func(_ uint64, e *subjects.Entry) { s.entry(e, want) }); err != nil {
		return nil, err
	}
	dead := map[subjects.Address]bool{}
	err = bus.Letters(ctx, m.conn, m.run, func(l *bus.Letter) error {
		if l.Stage == subjects.InspectStage {
			dead[subjects.Address{Seq: l.Sequence, Index: l.Item}] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	state, err := bus.StreamState(ctx, m.conn, m.run, subjects.Rollouts)
	if err != nil || state.Msgs == 0 || s.low > state.LastSeq {
		return s, err
	}
	err = bus.EachHeaders(ctx, m.conn, m.run.StreamName(subjects.Rollouts), "", max(s.low, state.FirstSeq), func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			s.arrived(&msgs[i], want, dead)
			if msgs[i].Seq >= state.LastSeq {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return s, err
}

// entry notes what an entry of the ledger says of the groups.
func (s *standing) entry(e *subjects.Entry, want map[subjects.GroupID]bool) {
	s.low = e.Low
	if e.End != "" {
		s.end = e.End
	}
	s.issued = append(s.issued, e.Issued...)
	for _, r := range e.Retries {
		if want[r.Group] {
			s.attempts[place{r.Kind, r.Group, r.Slot}] = r.Attempt
		}
	}
	for i := range e.Verdicts {
		if v := &e.Verdicts[i]; want[v.Group] {
			s.verdicts[v.Group] = v.Outcome
		}
	}
	for i := range e.Batches {
		for k := range e.Batches[i].Groups {
			if g := e.Batches[i].Groups[k].Group; want[g] {
				s.steps[g] = e.Batches[i].Step
			}
		}
	}
	for i := range e.Evals {
		s.rounds[e.Evals[i].Round] = true
	}
}

// arrived notes which slots a bundle fills, and which attempts it was refused.
func (s *standing) arrived(m *bus.HeaderMsg, want map[subjects.GroupID]bool, dead map[subjects.Address]bool) {
	for i, a := range s.gate.Admit(m.Subject, m.Header).Arrivals {
		e := a.Entry
		if a.Err != nil || !want[e.Group] || !e.Status.Trained() {
			continue
		}
		p := placeOf(&e)
		switch {
		case dead[subjects.Address{Seq: m.Seq, Index: i}] || dead[subjects.Address{Seq: m.Seq, Index: bus.WholeMessage}]:
			s.rejected[string(e.Kind)+"/"+e.ID()] = true
		case s.filled[p] == "" && !s.rejected[string(e.Kind)+"/"+e.ID()]:
			s.filled[p] = e.ID()
		}
	}
}
