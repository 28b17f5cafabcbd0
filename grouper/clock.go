package grouper

import "time"

// Two clocks meet in the core: events have the server's time, decisions the
// grouper's. Deadlines begin at an event and end at a decision, so a clock that
// is off must not end them at once, nor keep them from ending.

// clockSkew is how far the server's clock may be ahead before it is not believed.
const clockSkew = int64(time.Second)

// moment is when an event counts as having come: at its own time, but not
// before the newest decision, which was made without it.
func (c *Core) moment(at int64) int64 {
	at = max(at, c.now)
	c.latest = max(c.latest, at)
	return at
}

// setClocks sets what began in the future, by the clock of the decision that was
// just made or applied, to begin now. That is a function of the ledger, as it must be.
func (c *Core) setClocks() {
	if c.latest <= c.now+clockSkew {
		return
	}
	c.latest = c.now
	for _, g := range c.open {
		g.clock = min(g.clock, c.now)
	}
	for _, r := range c.rounds {
		r.clock = min(r.clock, c.now)
	}
	c.trainer.commitAt = min(c.trainer.commitAt, c.now)
	c.timer(c.now)
}
