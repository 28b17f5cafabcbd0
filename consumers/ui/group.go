package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/consumers/ui/index"
	"github.com/headrace/headrace/subjects"
)

// groupAnswer is a group with its trajectories side by side.
type groupAnswer struct {
	index.Group
	Verdict verdict         `json:"verdict"`
	Task    json.RawMessage `json:"task"` // of the first that says it; null: its seed is all
	Members []member        `json:"members"`
	Unused  []member        `json:"unused"`
	// LeftOut says what is not there, for want of room.
	LeftOut string `json:"left_out,omitempty"`
}

type verdict struct {
	Outcome   string `json:"outcome"`
	Text      string `json:"text"`
	LedgerSeq uint32 `json:"ledger_seq"` // 0: there is no verdict
}

// member is a trajectory of a group.
type member struct {
	ID            string                 `json:"id"`
	Slot          subjects.Slot          `json:"slot"`
	Attempt       subjects.Attempt       `json:"attempt"`
	Seq           uint64                 `json:"seq"`
	Index         int                    `json:"index"`
	Status        subjects.Status        `json:"status"`
	Reason        string                 `json:"reason"`
	Reward        show.Number            `json:"reward"`
	Components    map[string]show.Number `json:"components"`
	Advantage     show.Number            `json:"advantage"`
	Used          bool                   `json:"used"`
	Why           string                 `json:"why"`
	Masked        bool                   `json:"masked"`
	Tokens        int                    `json:"tokens"`
	SampledTokens *int                   `json:"sampled_tokens"`
	Turns         *int                   `json:"turns"`
	MinVersion    subjects.PolicyVersion `json:"min_version"`
	MaxVersion    subjects.PolicyVersion `json:"max_version"`
	Generate      show.Number            `json:"generate_seconds"`
	Env           show.Number            `json:"env_seconds"`
	Seconds       show.Number            `json:"seconds"`
	Producer      string                 `json:"producer"`
	Engine        string                 `json:"engine"`
	Started       show.Number            `json:"started"` // Unix seconds
	Finished      show.Number            `json:"finished"`
	Final         string                 `json:"final"` // the last the assistant said, shortened
	Messages      []subjects.Message     `json:"messages"`
	// Error is why its body is not there.
	Error string `json:"error,omitempty"`
}

const (
	mostMembers  = 256      // of a group that are shown
	mostMessages = 16 << 20 // bytes of their conversations
	longestFinal = 400      // characters
)

func (s *Server) group(w http.ResponseWriter, r *http.Request) error {
	v, release, err := s.listing(r)
	if err != nil {
		return err
	}
	defer release()
	done, err := s.take(r.Context(), s.heavy)
	if err != nil {
		return err
	}
	defer done()
	id := r.PathValue("group")
	group, list, ok := v.knowing(r.Context(), id).Group(id)
	if !ok {
		return notFound("run %s has no group %.80s", v.run, id)
	}
	out := &groupAnswer{Group: group, Members: []member{}, Unused: []member{},
		Verdict: verdict{Outcome: group.Outcome, Text: sentence(&group), LedgerSeq: group.LedgerSeq}}
	if err := out.fill(r.Context(), v, id, list); err != nil {
		return err
	}
	return answer(w, r, out)
}

// sentence says why a group was kept or dropped.
func sentence(g *index.Group) string {
	text := index.Sentence(subjects.Outcome(g.Outcome))
	switch {
	case g.Outcome == "kept" && g.Step == 0, g.Outcome == "partial" && g.Step == 0:
		return "Kept: " + text + "; no batch has it yet."
	case g.Step > 0:
		return fmt.Sprintf("Trained on in step %d: %s.", g.Step, text)
	case g.Outcome == "open", g.Outcome == "evaluated":
		return strings.ToUpper(text[:1]) + text[1:] + "."
	}
	return "Dropped: " + text + "."
}

// fill adds the trajectories: first what the index has of all, then their bodies.
func (a *groupAnswer) fill(ctx context.Context, v *view, id string, list []index.Member) error {
	slices.SortStableFunc(list, func(x, y index.Member) int { return cmp.Compare(rank(x), rank(y)) })
	if len(list) > mostMembers {
		a.LeftOut = fmt.Sprintf("%d of its %d trajectories are left out. ", len(list)-mostMembers, len(list))
		list = list[:mostMembers]
	}
	all := make([]member, len(list))
	var addresses []subjects.Address
	var places []int
	for i := range list {
		if all[i] = listed(id, &list[i]); list[i].Purged {
			all[i].Error = "its body was purged from the log"
			continue
		}
		addresses, places = append(addresses, list[i].Address), append(places, i)
	}
	defer v.index.Ahead()()
	room := mostMessages
	err := v.fetch(ctx, addresses, func(k int, b *show.Body, err error) error {
		m := &all[places[k]]
		if err != nil {
			m.Error = err.Error()
			return nil
		}
		if len(a.Task) == 0 && json.Valid(b.Trajectory.Task) {
			a.Task = b.Trajectory.Task
		}
		m.body(b.Trajectory, &room)
		return nil
	})
	if room <= 0 {
		a.LeftOut += "Some conversations are left out: they are long. Each trajectory has a page of its own."
	}
	for i := range all {
		if a.LedgerSeq == 0 || list[i].Member { // a group that was dropped has members, too
			a.Members = append(a.Members, all[i])
		} else {
			a.Unused = append(a.Unused, all[i])
		}
	}
	return err
}

// rank puts what was used first, and of that the highest reward.
func rank(m index.Member) float64 {
	r := -m.Reward
	if math.IsNaN(r) {
		r = math.MaxFloat32
	}
	if !m.Member {
		r += math.MaxFloat32
	}
	return r
}

// listed is what the index has of a trajectory.
func listed(group string, m *index.Member) member {
	return member{ID: subjects.TrajectoryID(subjects.GroupID(group), m.Slot, m.Attempt), Slot: m.Slot, Attempt: m.Attempt, Seq: m.Seq, Index: m.Address.Index,
		Status: m.Status, Reward: show.Number(m.Reward), Components: map[string]show.Number{}, Advantage: show.Number(m.Advantage), Used: m.Used, Why: m.Why, Masked: m.Masked,
		Tokens: m.Tokens, MinVersion: m.MinVersion, MaxVersion: m.MaxVersion, Producer: m.Producer, Generate: unknown, Env: unknown, Seconds: unknown,
		Started: unknown, Finished: unknown}
}

var unknown = show.Number(math.NaN())

// body adds what only the body says. room is how many bytes of text are left.
func (m *member) body(t *subjects.Trajectory, room *int) {
	sampled, turns := 0, len(t.Turns)
	for i := range t.Segments {
		sampled += len(t.Segments[i].Logprobs)
	}
	m.SampledTokens, m.Turns = &sampled, &turns
	m.Reason, m.Engine = t.Reason, t.Engine
	for name, c := range t.Components {
		m.Components[name] = show.Number(c)
	}
	generate, env := 0.0, 0.0
	for i := range t.Turns {
		spent := spend(t, i)
		generate, env = generate+spent.known(spent.Generate), env+spent.known(spent.Environment)
	}
	m.Generate, m.Env = show.Number(generate), show.Number(env)
	m.Started, m.Finished, m.Seconds = unixSeconds(t.Started), unixSeconds(t.Finished), between(t.Started, t.Finished)
	for i := len(t.Messages) - 1; i >= 0 && m.Final == ""; i-- {
		if t.Messages[i].Role == "assistant" {
			m.Final = shorten(t.Messages[i].Content)
		}
	}
	for i := range t.Messages {
		*room -= len(t.Messages[i].Content) + len(t.Messages[i].Role)
	}
	if *room > 0 {
		m.Messages = t.Messages
	}
}

func shorten(s string) string {
	n := 0
	for i := range s {
		if n++; n > longestFinal {
			return s[:i] + "…"
		}
	}
	return s
}

func unixSeconds(nanos int64) show.Number {
	if nanos <= 0 {
		return unknown
	}
	return show.Number(float64(nanos) / 1e9)
}

func between(from, to int64) show.Number {
	if from <= 0 || to < from {
		return unknown
	}
	return show.Number(time.Duration(to - from).Seconds())
}
