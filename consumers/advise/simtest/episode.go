package simtest

// episode is one slot of a group, played.
type episode struct {
	group   *group
	slow    float64 // how many times as long as others
	turn    int
	context int // tokens
	version int64
	from    float64 // of what it waits for now
	prompt  int     // tokens that the engine has to read for the turn
	left    int     // tokens that it has to sample for the turn
}

// producer plays as many episodes as it has slots.
type producer struct {
	live, published     int
	generating, stepped float64
}

func (w *world) lease() {
	for w.live < w.Slots && len(w.tasks) > 0 {
		e := w.tasks[0]
		w.tasks = w.tasks[1:]
		w.live++
		e.slow, e.version = 1, w.served()
		if w.rand.Float64() < w.SlowPart {
			e.slow = w.SlowBy
		}
		w.call(e)
	}
}

// call asks the engine with the fewest requests for a turn.
func (w *world) call(e *episode) {
	old := float64(e.context)
	e.context += w.Prompt
	read := float64(w.Prompt) + old*(1-w.CacheHit)
	least := w.engine[0]
	for _, x := range w.engine {
		if len(x.requests) < len(least.requests) {
			least = x
		}
	}
	least.prompt, least.cached = least.prompt+float64(e.context), least.cached+float64(e.context)-read
	e.prompt, e.from = int(read), w.now
	e.left = max(1, int(float64(w.Answer)*(.7+.6*w.rand.Float64())))
	least.requests = append(least.requests, e)
	w.compute(least)
}

// answered goes on with an episode whose turn is sampled.
func (w *world) answered(e *episode) {
	w.generating += w.now - e.from
	e.context += w.Answer
	e.turn++
	lasts := w.EnvTime * e.slow * (.5 + w.rand.Float64())
	w.after(lasts, func() {
		w.stepped += lasts
		if e.turn < w.Turns {
			w.call(e)
			return
		}
		w.live--
		w.published++
		w.arrive(e)
		w.lease()
	})
}

// engine computes for up to Rows requests at once.
type engine struct {
	name     string
	requests []*episode // the first of them run
	version  int64
	busy     bool
	paused   float64 // until then

	prompt, cached, sampled, rows, capacity, device, calls, syncing float64
}

// served is the version that the engines have.
func (w *world) served() int64 { return w.engine[0].version }

func (w *world) compute(x *engine) {
	if x.busy || len(x.requests) == 0 {
		return
	}
	x.busy = true
	if wait := x.paused - w.now; wait > 0 {
		w.after(wait, func() { x.busy = false; w.compute(x) })
		return
	}
	running := x.requests[:min(len(x.requests), w.Rows)]
	lasts := w.CallTime
	for _, e := range running {
		lasts += float64(e.prompt) * w.PromptTime
	}
	x.calls, x.rows, x.capacity = x.calls+1, x.rows+float64(len(running)), x.capacity+float64(w.Rows)
	n := len(running)
	w.after(lasts+w.HostTime, func() {
		x.device += lasts
		var rest, done []*episode
		for _, e := range x.requests[:n] {
			e.prompt = 0
			x.sampled += float64(min(e.left, w.Chunk))
			if e.left -= w.Chunk; e.left > 0 {
				rest = append(rest, e)
			} else {
				done = append(done, e)
			}
		}
		x.requests = append(rest, x.requests[n:]...)
		x.busy = false
		for _, e := range done {
			w.answered(e)
		}
		w.compute(x)
	})
}
