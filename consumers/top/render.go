package top

import (
	"math"

	"github.com/headrace/headrace/consumers/board"
)

// Picture is what is drawn.
type Picture struct {
	State *board.State
	Steps *board.Steps
}

// Screen is where it is drawn.
type Screen struct {
	Width, Height int // columns and lines; a Height of 0 has no end
	Colour        bool
}

const (
	labelWidth  = 10
	narrowest   = 24 // columns: below it nothing is readable
	shownSyncs  = 3
	shownRoles  = 3
	shownEvals  = 3
	meanOfSteps = 10
)

// What stays longest where there is no room for everything.
const (
	rankSyncs = iota
	rankAlso
	rankStaleness
	rankWaited
	rankEpisodes
	rankSays
	rankHeldOut
	rankGroups
	rankQueues
	rankRates
	rankReward
	rankTrainer
	rankAdvice
	rankStep
	rankHeader
)

// block is what stands and falls together.
type block struct {
	rank  int
	lines []line
}

// page is a picture that is being drawn.
type page struct {
	Picture
	width  int
	blocks []block
}

// leastTables is how many lines the tables get, if they want them, before
// anything else is left out.
const leastTables = 6

// Render draws the picture, each line no wider than the screen, and no more of
// them than it is high: what matters least is left out, and of long tables the ends.
func Render(p Picture, s Screen) []string {
	g := &page{Picture: p, width: max(s.Width, narrowest)}
	g.header()
	g.progress()
	g.reward()
	g.trainer()
	g.row(rankRates, "rates", ratesText(p.State))
	g.queues()
	g.groups()
	g.staleness()
	g.says()
	g.syncs()
	above := len(g.blocks)
	g.sentences()
	text := []string{}
	for _, l := range g.fold(above, s.Height) {
		text = append(text, l.trim().fit(g.width).text(s.Colour))
	}
	return text
}

// fold puts the tables between the blocks, and leaves out what there is no room for.
func (g *page) fold(above, height int) (out []line) {
	room := math.MaxInt
	if height > 0 {
		wanted := min(tablesWant(g.State), leastTables)
		for g.high() > height-wanted {
			least := 0
			for i := range g.blocks {
				if len(g.blocks[i].lines) > 0 && (len(g.blocks[least].lines) == 0 || g.blocks[i].rank < g.blocks[least].rank) {
					least = i
				}
			}
			if g.blocks[least].rank >= rankTrainer && wanted > 0 {
				wanted = 0 // rather no tables
				continue
			}
			if g.high() == 0 {
				break
			}
			g.blocks[least].lines = nil
		}
		room = height - g.high()
	}
	for _, b := range g.blocks[:above] {
		out = append(out, b.lines...)
	}
	out = append(out, tables(g.State, g.width, room)...)
	for _, b := range g.blocks[above:] {
		out = append(out, b.lines...)
	}
	return out
}

// high is how many lines the blocks have.
func (g *page) high() (n int) {
	for i := range g.blocks {
		n += len(g.blocks[i].lines)
	}
	return n
}

func (g *page) put(rank int, lines ...line) { g.blocks = append(g.blocks, block{rank, lines}) }

// labeled starts a line with its label.
func labeled(label string) *line {
	l := &line{}
	return l.add(faint, "%-*s", labelWidth, label)
}

func (g *page) row(rank int, label, text string) { g.put(rank, *labeled(label).add(plain, "%s", text)) }
