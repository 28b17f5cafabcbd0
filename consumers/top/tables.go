package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/consumers/board"
)

// column of a table; the lowest rank is left out first where it is too wide.
type column struct {
	head string
	rank int
	left bool
}

// tables are the engines and the producers in as many lines as there is room for.
func tables(s *board.State, width, room int) []line {
	engines := engineRows(s.Engines, s.Live)
	producers := producerRows(s.Producers)
	forEngines, forProducers := share(len(engines), len(producers), room)
	out := table("engines", engineColumns, engines, len(s.Engines), width, forEngines)
	return append(out, table("producers", producerColumns, producers, s.ProducersAll, width, forProducers)...)
}

// tablesWant is how many lines the tables would have.
func tablesWant(s *board.State) (n int) {
	for _, rows := range []int{len(s.Engines), len(s.Producers)} {
		if rows > 0 {
			n += rows + 1
		}
	}
	return n
}

// share splits the room: to each what it wants, to none more than half while the
// other wants more.
func share(a, b, room int) (forA, forB int) {
	want := func(n int) int {
		if n == 0 {
			return 0
		}
		return n + 1
	}
	a, b = want(a), want(b)
	if a+b <= room {
		return a, b
	}
	half := max(room/2, 0)
	forA = max(min(a, room-min(b, room-half)), 0)
	return forA, max(min(b, room-forA), 0)
}

var engineColumns = []column{{"ENGINE", 99, true}, {"VERSION", 90, false}, {"BUSY", 95, false}, {"RUNNING", 80, false}, {"WAITING", 85, false}, {"TOKENS/S", 88, false},
	{"CACHE HITS", 70, false}, {"ROWS", 60, false}, {"CACHE USED", 50, false}, {"PAUSED", 65, false}, {"HEARD", 75, false}}

func engineRows(list []board.Engine, live bool) (rows [][]string) {
	for i := range list {
		e := &list[i]
		version := fmt.Sprint(e.Version)
		switch {
		case e.Version < 0:
			version = unknown
		case live && !e.Ready:
			version += "?" // it is not in the registry
		}
		rows = append(rows, []string{e.Name, version, percent(e.Busy), count(e.Running), count(e.Waiting), count(e.TokensPerSecond), percent(e.CacheHit), percent(e.RowFill),
			percent(e.TokenUsage), percent(e.PausedFraction), ago(e.Heard)})
	}
	return rows
}

var producerColumns = []column{{"PRODUCER", 99, true}, {"HEARD", 95, false}, {"LIVE", 90, false}, {"SLOTS", 70, false}, {"HELD", 60, false}, {"PUBLISHED", 80, false},
	{"FAILED", 85, false}, {"GENERATES", 75, false}, {"IN ENV", 76, false}, {"BLOCKED", 65, false}}

// producerRows has the lost ones first, then the blocked, then the slowest.
func producerRows(all []board.Producer) (rows [][]string) {
	list := slices.Clone(all)
	rank := func(p *board.Producer) int {
		switch {
		case p.Heard.Or(1e18) > 10:
			return 0
		case p.Blocked:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b board.Producer) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Heard.Or(1e18)*float64(1-rank(&b)/2), a.Heard.Or(1e18)*float64(1-rank(&a)/2)),
			cmp.Compare(a.Published.Or(0), b.Published.Or(0)), strings.Compare(a.Name, b.Name))
	})
	for i := range list {
		p := &list[i]
		blocked := ""
		if p.Blocked {
			blocked = "yes"
		}
		rows = append(rows, []string{p.Name, ago(p.Heard), count(p.Live), count(p.Slots), count(p.Held), count(p.Published), count(p.Failed), percent(p.GenerateFraction),
			percent(p.EnvFraction), blocked})
	}
	return rows
}

// table sets rows under their heads in at most so many lines, columns as wide as
// they need to be.
func table(name string, columns []column, rows [][]string, all, width, room int) (out []line) {
	if len(rows) == 0 || room < 2 {
		return nil
	}
	shown := rows
	if len(rows)+1 > room {
		shown = rows[:max(room-2, 0)]
	}
	use, widths := choose(columns, shown, width)
	var head line
	for _, i := range use {
		head.add(faint, "%s", pad(columns[i].head, widths[i], columns[i].left))
	}
	out = append(out, head)
	for _, r := range shown {
		var l line
		for _, i := range use {
			l.add(look(columns[i].head, r[i]), "%s", pad(r[i], widths[i], columns[i].left))
		}
		out = append(out, l)
	}
	if more := all - len(shown); more > 0 {
		out = append(out, *(&line{}).add(faint, "and %d more %s", more, name))
	}
	return out[:min(len(out), room)]
}

const longestCell = 24

// choose picks the columns that fit, and how wide each is.
func choose(columns []column, rows [][]string, room int) (use, widths []int) {
	sum := 0
	widths = make([]int, len(columns))
	for i := range columns {
		widths[i] = width(columns[i].head) + 2
		for _, r := range rows {
			widths[i] = max(widths[i], min(width(r[i]), longestCell)+2)
		}
		use, sum = append(use, i), sum+widths[i]
	}
	for sum > room+2 && len(use) > 1 {
		least := slices.IndexFunc(use, func(i int) bool {
			return !slices.ContainsFunc(use, func(k int) bool { return columns[k].rank < columns[i].rank })
		})
		sum -= widths[use[least]]
		use = slices.Delete(use, least, least+1)
	}
	return use, widths
}

// pad sets text into a column: two spaces between columns.
func pad(s string, n int, left bool) string {
	s = cut(clean(s), n-2)
	fill := strings.Repeat(" ", max(n-2-width(s), 0))
	if left {
		return s + fill + "  "
	}
	return fill + s + "  "
}

// look is how a cell looks that is worth a look.
func look(head, text string) style {
	switch {
	case head == "ENGINE" || head == "PRODUCER":
		return bold
	case head == "HEARD" && text != "now", head == "BLOCKED" && text != "":
		return warn
	case head == "FAILED" && text != "0" && text != unknown:
		return warn
	}
	return plain
}
