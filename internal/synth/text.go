package synth

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Sentences that a reader must get right: scripts, directions, characters of
// several code points, what looks like markup.
var sentences = []string{
	"I should look at the neighbours first, then take the shorter way.",
	"Zuerst prüfe ich die Straße – fünf Schritte, äußerst vorsichtig.",
	"我先看四周，再决定往哪里走。",
	"氷の上を慎重に進みます。次は右でしょうか？",
	"سأتجه يمينًا ثم أنزل إلى الأسفل، فالهدف قريب.",
	"אני הולך ימינה ואז למטה, כי יש חור משמאל.",
	"मैं पहले दाएँ जाऊँगा, फिर नीचे।",
	"Сначала вправо, потом вниз — там лёд крепкий.",
	"The way is clear 🧊🐧 ➡️ 👩🏽‍🚀 and the flag is 🏴󠁧󠁢󠁳󠁣󠁴󠁿.",
	"Cafe\u0301 and cafés differ in bytes; \u202eright to left\u202c and a zero\u200bwidth space.",
	"<script>alert('not run')</script> & <b>not bold</b> \"quoted\" 'twice'",
	"if (x < y && y > z) { return a[i]; } // `code` and **bold**\n\tindented",
	"ΔE = √(Σᵢ (xᵢ − μ)²) ≤ 10⁻⁶, so ∀ε>0 ∃δ.",
	"한국어도 섞여 있습니다. 오른쪽으로 가겠습니다.",
	"ที่นี่น้ำแข็งบาง ต้องระวัง",
}

// rich is a few sentences.
func rich(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(sentences[r.IntN(len(sentences))])
	}
	return b.String()
}

// long is a text of some kilobytes.
func long(r *rand.Rand) string {
	var b strings.Builder
	for i := 0; b.Len() < 9000; i++ {
		fmt.Fprintf(&b, "%d. %s\n", i+1, sentences[r.IntN(len(sentences))])
	}
	return b.String()
}

var directions = []string{"up", "down", "left", "right"}

// lake is what the lake shows at a turn.
func lake(r *rand.Rand) string {
	cells := []string{"ice", "ice", "ice", "hole", "wall"}
	down, right := r.IntN(4), r.IntN(4)
	return fmt.Sprintf("up: %s, down: %s, left: %s, right: %s, goal at %d down, %d right", cells[r.IntN(5)], cells[r.IntN(3)], cells[r.IntN(5)],
		cells[r.IntN(3)], down, right)
}

// call is a tool call as the calculator's policy writes it.
func call(expression string) string {
	return "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"" + expression + "\"}}\n</tool_call>"
}

// thought is what a model says before it acts, if anything.
func thought(r *rand.Rand) string {
	switch n := r.IntN(100); {
	case n < 85:
		return ""
	case n < 99:
		return "<think>" + sentences[0][:12+r.IntN(20)] + "</think>\n"
	default:
		return "<think>" + rich(r, 1) + "</think>\n"
	}
}
