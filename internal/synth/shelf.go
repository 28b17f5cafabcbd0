package synth

// What is special about a story.
const (
	isPlain = iota
	isRich
	isLong
	isForked
	isCut // its token budget ended
	kinds
)

// classes is how many different tasks there are stories of, in each environment.
const classes = 48

// shelf are the stories to choose from: for each task some that were won and some
// that were lost.
type shelf struct {
	plain   [envCount][classes][2][]*story
	special [envCount][kinds][2][]*story
}

func newShelf(t *teller) *shelf {
	s := &shelf{}
	for class := range classes {
		first, a, b, c := lake(t.rng), 10+t.rng.IntN(80), 2+t.rng.IntN(40), 2+t.rng.IntN(9)
		for won := range 2 {
			for range 10 {
				s.plain[lakeEnv][class][won] = append(s.plain[lakeEnv][class][won], t.walk(first, 1+t.rng.IntN(5), won == 1, isPlain))
				s.plain[calculatorEnv][class][won] = append(s.plain[calculatorEnv][class][won], t.reckon(a, b, c, won == 1, isPlain))
			}
		}
	}
	for kind := isRich; kind < kinds; kind++ {
		for won := range 2 {
			for range 12 {
				s.special[lakeEnv][kind][won] = append(s.special[lakeEnv][kind][won], t.walk(lake(t.rng), 3+t.rng.IntN(5), won == 1, kind))
				s.special[calculatorEnv][kind][won] = append(s.special[calculatorEnv][kind][won],
					t.reckon(10+t.rng.IntN(80), 2+t.rng.IntN(40), 2+t.rng.IntN(9), won == 1, kind))
			}
		}
	}
	return s
}

// take chooses a story of a task.
func (s *shelf) take(env int, seed int64, won bool, kind, n int) *story {
	w := 0
	if won {
		w = 1
	}
	list := s.plain[env][seed%classes][w]
	if kind != isPlain {
		list = s.special[env][kind][w]
	}
	return list[n%len(list)]
}
