package ui

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/subjects"
)

// trajectoryAnswer is a trajectory with all that is known of it.
type trajectoryAnswer struct {
	*show.Trajectory
	Address   address       `json:"address"`
	Step      subjects.Step `json:"step"` // that trained on it; 0: none
	Advantage show.Number   `json:"advantage"`
	Used      bool          `json:"used"`
	Why       string        `json:"why"`
	Masked    bool          `json:"masked"`
	Bytes     int           `json:"bytes"`
	Stored    show.Number   `json:"stored"` // when the server stored it, Unix seconds
	// TurnSeconds are where the time of each turn went.
	TurnSeconds []spent           `json:"turn_seconds"`
	Text        []pieces          `json:"text"`
	Commands    map[string]string `json:"commands"`
}

type address struct {
	Seq   uint64 `json:"seq"`
	Index int    `json:"index"`
}

// pieces are the texts of a segment's tokens, null where the vocabulary is not known.
type pieces struct {
	Segment int      `json:"segment"`
	Pieces  []string `json:"pieces"`
}

// spent is where the time of a turn went: between the environment's last answer
// and the call, in the call, in the environment.
type spent struct {
	Queued      show.Number `json:"queued"`
	Generate    show.Number `json:"generate"`
	Environment show.Number `json:"environment"`
}

func (spent) known(n show.Number) float64 {
	if f := float64(n); !math.IsNaN(f) {
		return f
	}
	return 0
}

func spend(t *subjects.Trajectory, i int) spent {
	u, before := &t.Turns[i], t.Started
	if i > 0 {
		before = t.Turns[i-1].Stepped
	}
	return spent{Queued: between(before, u.Queued), Generate: between(u.Queued, u.Generated), Environment: between(u.Generated, u.Stepped)}
}

// mostTokens of a trajectory are sent to a browser; a script may have any.
const mostTokens = 1 << 19

func (s *Server) trajectory(w http.ResponseWriter, r *http.Request) error {
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
	id := r.PathValue("group") + "/" + r.PathValue("slot") + "/" + r.PathValue("attempt")
	m, ok := v.knowing(r.Context(), r.PathValue("group")).Trajectory(id)
	if !ok {
		return notFound("run %s has no trajectory %.100s", v.run, id)
	}
	body, err := v.one(r, m.Address)
	if err != nil {
		return err
	}
	t := body.Trajectory
	tokens := 0
	for i := range t.Segments {
		tokens += len(t.Segments[i].Tokens)
	}
	command := fmt.Sprintf("headrace show %s trajectory %s%s", v.run, id, s.o.Runs.Flags(v.run))
	if tokens > mostTokens {
		return status{http.StatusServiceUnavailable, fmt.Errorf("it has %d tokens, more than a page can show: `%s --json` writes them", tokens, command)}
	}
	out := &trajectoryAnswer{Trajectory: show.View(t), Address: address{m.Seq, m.Address.Index}, Advantage: show.Number(m.Advantage), Used: m.Used, Why: m.Why, Masked: m.Masked,
		Bytes: body.Bytes, Stored: unknown, TurnSeconds: []spent{}, Text: s.text(v, t), Commands: map[string]string{
			"show":   command,
			"replay": fmt.Sprintf("headrace replay %s --group %s%s", v.run, t.Group, s.o.Runs.Flags(v.run)),
			"trace":  fmt.Sprintf("headrace trace %s --last 60s%s", v.run, s.o.Runs.Flags(v.run)),
		}}
	if m.Used && t.Kind == subjects.Train {
		out.Step = m.Step
	}
	if out.Step > 0 {
		out.Commands["trace"] = fmt.Sprintf("headrace trace %s --step %d%s", v.run, out.Step, s.o.Runs.Flags(v.run))
	}
	if !body.Time.IsZero() {
		out.Stored = show.Number(float64(body.Time.UnixNano()) / float64(time.Second))
	}
	for i := range t.Turns {
		out.TurnSeconds = append(out.TurnSeconds, spend(t, i))
	}
	return answer(w, r, out)
}

// one reads the trajectory at an address.
func (v *view) one(r *http.Request, at subjects.Address) (out *show.Body, err error) {
	defer v.index.Ahead()()
	err = v.fetch(r.Context(), []subjects.Address{at}, func(_ int, b *show.Body, err error) error {
		out = b
		return err
	})
	return out, err
}

// text decodes the tokens, where the vocabulary is known.
func (s *Server) text(v *view, t *subjects.Trajectory) []pieces {
	all := []pieces{}
	var piece func(int32) string
	if s.o.Pieces != nil && v.record != nil {
		piece = s.o.Pieces(v.record, t.Tokenizer)
	}
	for i := range t.Segments {
		p := pieces{Segment: i}
		if piece != nil {
			p.Pieces = make([]string, len(t.Segments[i].Tokens))
			for k, id := range t.Segments[i].Tokens {
				p.Pieces[k] = legible(piece(id))
			}
		}
		all = append(all, p)
	}
	return all
}

// legible writes bytes that are no text, as a token has that is a part of a
// character, as ‹e4›.
func legible(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		if _, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&out, "‹%02x›", s[i])
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
