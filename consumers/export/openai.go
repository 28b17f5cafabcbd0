package export

import (
	"io"

	"github.com/headrace/headrace/subjects"
)

// openAI writes conversations in the form of chat APIs and SFT trainers.
type openAI struct{ lines }

func newOpenAI(w io.Writer) Writer { return openAI{newLines(w)} }

// chatLine is a line: messages, and what one selects by.
type chatLine struct {
	Messages []Message `json:"messages"`
	Metadata Metadata  `json:"metadata"`
}

// Metadata is what a line of text formats says of its trajectory.
type Metadata struct {
	ID          string             `json:"id"`
	Environment string             `json:"environment"`
	Kind        subjects.Kind      `json:"kind"`
	Status      subjects.Status    `json:"status"`
	Reason      string             `json:"reason,omitempty"`
	Reward      float64            `json:"reward"`
	Components  map[string]float64 `json:"components,omitempty"`
	Fate        *Fate              `json:"fate,omitempty"`
}

func metadata(r *Record) Metadata {
	return Metadata{ID: r.ID, Environment: r.Environment, Kind: r.Kind, Status: r.Status, Reason: r.Reason, Reward: r.Reward, Components: r.Components, Fate: r.Fate}
}

func (o openAI) Write(r *Record, _ subjects.Address) error {
	if len(r.Messages) == 0 {
		return nil // nothing was said before it failed
	}
	return o.enc.Encode(chatLine{conversation(r.Messages), metadata(r)})
}

func (openAI) Close() error { return nil }
