package synth

import (
	"math/rand/v2"
	"strconv"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// The environments, in the recipe's order.
const (
	lakeEnv = iota
	calculatorEnv
	envCount
)

var envNames = [envCount]string{"frozenlake", "calculator"}

// story is an episode without its circumstances: what was said, and the tokens
// that it was said in. Many trajectories tell the same one; nothing of it changes.
type story struct {
	messages []subjects.Message
	segments []subjects.Segment // without logprobs and versions
	turns    []subjects.Turn    // without times
	sampled  int
}

// teller makes stories.
type teller struct {
	tok  *tokenizer.Words
	chat *tokenizer.ChatML
	rng  *rand.Rand
}

func newTeller(tok *tokenizer.Words, seed int64) (*teller, error) {
	chat, err := tokenizer.NewChatML(tok)
	return &teller{tok: tok, chat: chat, rng: rand.New(rand.NewPCG(uint64(seed), 1))}, err //nolint:gosec // not a secret
}

// draft is a story that is being told.
type draft struct {
	*teller
	story
	said []envs.Message // as the model sees it
	mark int32          // end of the last completion in its segment
}

func (t *teller) begin(env int, first string) *draft {
	d := &draft{teller: t}
	d.hear(envs.Message{Role: envs.RoleSystem, Content: builtin.Specs()[envNames[env]].System})
	d.hear(envs.Message{Role: envs.RoleUser, Content: first})
	d.segments = []subjects.Segment{{Tokens: t.chat.Prompt(d.said, true), Parent: -1}}
	return d
}

func (d *draft) hear(m envs.Message) {
	d.said = append(d.said, m)
	d.messages = append(d.messages, subjects.Message{Role: m.Role, Content: m.Content, Name: m.Name})
}

func (d *draft) segment() *subjects.Segment { return &d.segments[len(d.segments)-1] }

// say is one turn of the model; cut: its token budget ended in it.
func (d *draft) say(text string, cut bool) {
	ids := d.tok.Encode(text)
	finish := "length"
	if !cut {
		ids, finish = append(ids, d.tok.EOSID()), "stop"
	}
	s := d.segment()
	at := int32(len(s.Tokens)) //nolint:gosec // small
	end := at + int32(len(ids))
	d.turns = append(d.turns, subjects.Turn{Segment: len(d.segments) - 1, Prompt: subjects.Span{Start: d.mark, End: at},
		Completion: subjects.Span{Start: at, End: end}, Cached: d.mark, Finish: finish})
	s.Tokens, s.LossMask = append(s.Tokens, ids...), append(s.LossMask, subjects.Span{Start: at, End: end})
	d.mark, d.sampled = end, d.sampled+len(ids)
	d.hear(envs.Message{Role: envs.RoleAssistant, Content: text})
}

// answer is what the environment says to it.
func (d *draft) answer(m envs.Message) {
	d.segment().Tokens = append(d.segment().Tokens, d.chat.Extend([]envs.Message{m})...)
	d.hear(m)
}

// fork rewrites the history: what the model said first is shortened.
func (d *draft) fork() {
	for i := range d.said {
		if d.said[i].Role == envs.RoleAssistant {
			d.said[i].Content = "(shortened)"
			break
		}
	}
	ids, old := d.chat.Prompt(d.said, true), d.segment().Tokens
	shared := 0
	for shared < min(len(ids), len(old)) && ids[shared] == old[shared] {
		shared++
	}
	d.segments = append(d.segments, subjects.Segment{Tokens: ids, Parent: len(d.segments) - 1, Shared: shared})
	d.mark = int32(shared) //nolint:gosec // small
}

// walk is a story of the lake: kind says what is special about it.
func (t *teller) walk(first string, turns int, won bool, kind int) *story {
	d := t.begin(lakeEnv, first)
	for i := range turns {
		text := thought(t.rng) + directions[t.rng.IntN(len(directions))]
		switch {
		case kind == isLong && i == 0:
			text = "<think>" + long(t.rng) + "</think>\n" + text
		case kind == isRich:
			text = "<think>" + rich(t.rng, 2) + "</think>\n" + text
		}
		last := i == turns-1
		d.say(text, last && kind == isCut)
		if !last {
			d.answer(envs.Message{Role: envs.RoleUser, Content: lake(t.rng)})
			if kind == isForked && i == turns/2 {
				d.fork()
			}
		} else if won {
			d.hear(envs.Message{Role: envs.RoleUser, Content: "goal"})
		}
	}
	return &d.story
}

// reckon is a story of the calculator.
func (t *teller) reckon(a, b, c int, won bool, kind int) *story {
	d := t.begin(calculatorEnv, "What is "+strconv.Itoa(a)+"+"+strconv.Itoa(b)+"*"+strconv.Itoa(c)+"?")
	calls := []struct {
		expression string
		result     int
	}{{strconv.Itoa(b) + "*" + strconv.Itoa(c), b * c}, {strconv.Itoa(a) + "+" + strconv.Itoa(b*c), a + b*c}}
	for i, x := range calls {
		text := thought(t.rng) + call(x.expression)
		if kind == isRich {
			text = "<think>" + rich(t.rng, 1) + "</think>\n" + text
		}
		d.say(text, false)
		d.answer(envs.Message{Role: envs.RoleTool, Name: "calculator", Content: strconv.Itoa(x.result)})
		if kind == isForked && i == 0 {
			d.fork()
		}
	}
	result := a + b*c
	if !won {
		result -= 1 + t.rng.IntN(9)
	}
	d.say("Answer: "+strconv.Itoa(result), kind == isCut)
	return &d.story
}
