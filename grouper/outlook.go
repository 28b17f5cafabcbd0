package grouper

import (
	"fmt"

	"github.com/headrace/headrace/subjects"
)

// Wait is what a core's next decision waits for.
type Wait string

// What a core can wait for.
const (
	WaitNothing    Wait = "nothing"    // the run has ended
	WaitCommit     Wait = "commit"     // the trainer's, of Step
	WaitInspection Wait = "inspection" // of what a group could close with
	WaitSlots      Wait = "slots"      // of the oldest open group
	WaitMembers    Wait = "members"    // of the oldest open group, an external one
	WaitEpisodes   Wait = "episodes"   // of the evaluation at Step
	WaitVersion    Wait = "version"    // an engine that serves Version
	WaitAnything   Wait = "anything"   // a trajectory
)

// Outlook says what the next decision waits for.
type Outlook struct {
	Wait    Wait
	Step    subjects.Step
	Version subjects.PolicyVersion
	Group   subjects.GroupID
	// Missing counts the slots, members or episodes that are waited for.
	Missing int
	Ended   string
}

// String says it in words.
func (o Outlook) String() string {
	switch o.Wait {
	case WaitNothing:
		return "nothing: the run has ended (" + o.Ended + ")"
	case WaitCommit:
		return fmt.Sprintf("the trainer's commit of step %d", o.Step)
	case WaitInspection:
		return "inspection"
	case WaitSlots:
		return fmt.Sprintf("%d slots of group %s", o.Missing, o.Group)
	case WaitMembers:
		return fmt.Sprintf("%d more of group %s", o.Missing, o.Group)
	case WaitEpisodes:
		return fmt.Sprintf("%d episodes of the evaluation at step %d", o.Missing, o.Step)
	case WaitVersion:
		return fmt.Sprintf("an engine to serve version %d", o.Version)
	}
	return "trajectories"
}

// outlook looks for what is waited for; oldest is the oldest open group, if there is one.
func (c *Core) outlook(oldest *group, now int64) Outlook {
	commit := Outlook{Wait: WaitCommit, Step: c.trainer.committed + 1}
	switch last, known := c.final(); {
	case c.ended != "":
		return Outlook{Wait: WaitNothing, Ended: c.ended}
	case known && c.trainer.committed < last:
		return commit
	case *c.cfg.Inspect && c.uninspected():
		return Outlook{Wait: WaitInspection}
	case int64(c.lastStep) >= int64(c.trainer.committed)+1+int64(*c.cfg.MaxStaleness):
		return commit
	case oldest != nil && c.external():
		return Outlook{Wait: WaitMembers, Group: oldest.id, Missing: max(0, c.cfg.GroupSize-len(oldest.members))}
	case oldest != nil:
		return Outlook{Wait: WaitSlots, Group: oldest.id, Missing: oldest.pending}
	case len(c.rounds) > 0:
		return Outlook{Wait: WaitEpisodes, Step: c.rounds[0].step, Missing: c.rounds[0].pending}
	case !c.external() && c.behind(now):
		return Outlook{Wait: WaitVersion, Version: subjects.PolicyVersion(c.trainer.committed)}
	}
	return Outlook{Wait: WaitAnything}
}

// uninspected reports whether a group or a round could close but for the inspection.
func (c *Core) uninspected() bool {
	for g := range c.ready {
		if c.full(g) && c.newest(g) > c.inspected {
			return true
		}
	}
	for _, r := range c.rounds {
		if r.pending == 0 && r.newest() > c.inspected {
			return true
		}
	}
	return false
}
