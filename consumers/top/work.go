package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

func ratesText(s *board.State) string {
	return fmt.Sprintf("%s trajectories/s  %s tokens/s sampled  %s trained  %s/s", count(s.Rates.Trajectories), count(s.Rates.Tokens), count(s.Rates.TrainedTokens), size(s.Rates.Bytes))
}

func (g *page) queues() {
	var parts []string
	for _, q := range g.State.Queues {
		part := q.Name + " " + count(q.Trajectories)
		if q.Bytes.Known() && q.Bytes > 0 {
			part += " (" + size(q.Bytes) + ")"
		}
		parts = append(parts, part)
	}
	g.list(rankQueues, "queues", parts)
}

// list puts a list under a label, on as many lines as it takes.
func (g *page) list(rank int, label string, parts []string) {
	var out []line
	for _, text := range flow(parts, g.width-labelWidth, 0) {
		out = append(out, *labeled(label).add(plain, "%s", text))
		label = ""
	}
	g.put(rank, out...)
}

// flow sets parts two spaces apart into lines of a width; of the first line some
// columns are taken. There is at least one line.
func flow(parts []string, room, taken int) (lines []string) {
	text := ""
	for _, p := range parts {
		switch {
		case text == "" && (len(lines) > 0 || taken+width(p) <= room || taken == 0):
			text = p
		case text != "" && taken+width(text)+2+width(p) <= room:
			text += "  " + p
		default:
			lines, text, taken = append(lines, text), p, 0
		}
	}
	return append(lines, text)
}

func (g *page) groups() {
	s := g.State
	open := fmt.Sprintf("%s open", count(s.Groups.Open))
	if s.Groups.Oldest.Known() {
		open += " (oldest " + seconds(s.Groups.Oldest) + ")"
	}
	parts := []string{fmt.Sprintf("%d issued", s.Groups.Issued), open}
	for _, o := range []subjects.Outcome{subjects.Kept, subjects.Partial, subjects.ZeroVariance, subjects.Expired, subjects.TooFew, subjects.Stale, subjects.Cancelled} {
		if n := s.Groups.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words(string(o))))
		}
	}
	if n := s.Groups.Retries; n > 0 {
		parts = append(parts, plural(n, "slot")+" retried")
	}
	g.list(rankGroups, "groups", parts)
	t := &s.Trajectories
	parts = []string{fmt.Sprintf("%d produced", t.Produced), fmt.Sprintf("%d trained", t.Trained), fmt.Sprintf("%d open", t.Open)}
	g.list(rankEpisodes, "episodes", append(parts, dropped(t.Dropped)...))
}

// says is what processes say that they do or wait for.
func (g *page) says() {
	var out []line
	label := "waiting"
	for _, r := range g.State.Roles {
		if r.Text == "" || r.Heard.Or(0) > 10 {
			continue
		}
		out = append(out, *labeled(label).add(plain, "%s: %s", r.Role, strings.TrimPrefix(r.Text, "waiting for ")))
		label = ""
		if len(out) == shownRoles {
			break
		}
	}
	g.put(rankSays, out...)
}

// dropped are the reasons, the most frequent first.
func dropped(m map[string]int64) (parts []string) {
	reasons := make([]string, 0, len(m))
	for reason := range m {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if m[a] != m[b] {
			return int(max(min(m[b]-m[a], 1), -1))
		}
		return strings.Compare(a, b)
	})
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", m[reason], words(reason)))
	}
	return parts
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

func (g *page) staleness() {
	h, all := &g.State.Staleness, int64(0)
	for _, n := range h.Trajectories {
		all += n
	}
	if all == 0 {
		return
	}
	var parts []string
	for i, n := range h.Trajectories {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d: %.0f%%", h.Versions[i], 100*float64(n)/float64(all)))
		}
	}
	g.list(rankStaleness, "staleness", append(parts, fmt.Sprintf("steps behind, %d allowed", g.State.StalenessMaxAllowed)))
}

func (g *page) syncs() {
	var parts []string
	for _, y := range g.State.Syncs[:min(len(g.State.Syncs), shownSyncs)] {
		part := fmt.Sprintf("%s v%d in %s", y.Engine, y.Version, seconds(y.Seconds))
		if y.Error != "" {
			part = fmt.Sprintf("%s v%d: %s", y.Engine, y.Version, y.Error)
		}
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		g.list(rankSyncs, "syncs", parts)
	}
}
