package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// fault is one way to break a run.
type fault struct {
	name  string
	text  string // for the table
	short bool   // in CI too
	// plan says what the fleet needs; nil: nothing beyond the usual.
	plan func(w *world)
	// strike breaks it and returns when it is over.
	strike func(ctx context.Context, w *world) (wound, error)
}

// wound is what was done, and when it was over.
type wound struct {
	Text string    `json:"text"`
	Back time.Time `json:"back"` // the process runs again, or the fault has ended
	// Stage is whose progress shows that all is well again, Who one instance of it.
	Stage stage  `json:"stage"`
	Who   string `json:"who"`
	// Loses says that data is gone for good: it must be reported.
	Loses bool `json:"loses,omitempty"`
	// Spoiled is a version whose files were damaged: nobody may serve it.
	Spoiled string `json:"spoiled,omitempty"`
	// Shift is how far the server's clock was off from Back on.
	Shift time.Duration `json:"shift,omitempty"`
}

// stage is a kind of progress that the log shows.
type stage string

const (
	played    stage = "trajectory" // a producer's, of an episode that did not fail
	decided   stage = "ledger"     // an entry
	committed stage = "commit"     // a step of the trainer
	served    stage = "ack"        // a version that an engine serves
	cycle     stage = "cycle"      // a step is trained whose trajectories were all played since
)

// shows is the progress of each process.
var shows = map[string]stage{
	"produce-a": played, "produce-b": played, "engine": played, "group-a": decided, "group-b": decided,
	"sidecar": served, "bridge": committed, "trainer": committed, "nats": cycle, "n1": cycle, "n2": cycle, "n3": cycle,
}

// wounded is the wound of one process.
func wounded(text, victim string, back time.Time) wound {
	w := wound{Text: text + " " + victim, Back: back, Stage: shows[victim]}
	if w.Stage == played && victim != "engine" {
		w.Who = victim
	}
	return w
}

// one draws a victim.
func (w *world) one(of ...string) string { return of[w.pickOne(len(of))] }

func kill(victims ...string) func(context.Context, *world) (wound, error) {
	return func(_ context.Context, w *world) (wound, error) {
		victim, down := w.one(victims...), w.between(50*time.Millisecond, time.Second)
		back, err := w.procs[victim].crash(syscall.SIGKILL, down, nil)
		return wounded(fmt.Sprintf("SIGKILL, back after %s:", down.Round(time.Millisecond)), victim, back), err
	}
}

func hold(victims ...string) func(context.Context, *world) (wound, error) {
	return func(ctx context.Context, w *world) (wound, error) {
		victim, held := w.one(victims...), w.between(200*time.Millisecond, 3*time.Second)
		p := w.procs[victim]
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return wound{}, err
		}
		defer p.signal(syscall.SIGCONT) //nolint:errcheck // whatever happens
		if err := pause(ctx, held); err != nil {
			return wound{}, err
		}
		err := p.signal(syscall.SIGCONT)
		return wounded(fmt.Sprintf("SIGSTOP for %s:", held.Round(time.Millisecond)), victim, time.Now()), err
	}
}

func twoGroupers(w *world) { w.plan.groupers = 2 }
func threeNodes(w *world)  { w.plan.cluster = true }
func ownVolume(w *world)   { w.plan.volume = true }

// faults is the table, in its order.
var faults = []fault{
	{name: "none", text: "nothing happens", short: true, strike: nothing},
	{name: "kill-producer", text: "kill -9 one of two producers", strike: kill("produce-a", "produce-b")},
	{name: "kill-engine", text: "kill -9 the engine: it comes back empty", short: true, strike: kill("engine")},
	{name: "kill-sidecar", text: "kill -9 the engine's sidecar", strike: kill("sidecar")},
	{name: "kill-grouper", text: "kill -9 the grouper", short: true, strike: kill("group-a")},
	{name: "kill-bridge", text: "kill -9 the bridge", short: true, strike: kill("bridge")},
	{name: "kill-trainer", text: "kill -9 the trainer", short: true, strike: kill("trainer")},
	{name: "kill-nats", text: "kill -9 the NATS server", short: true, strike: kill("nats")},
	{name: "kill-nats-node", text: "kill -9 one of three NATS nodes", plan: threeNodes, strike: kill("n1", "n2", "n3")},
	{name: "stop-producer", text: "SIGSTOP one of two producers, later SIGCONT", strike: hold("produce-a", "produce-b")},
	{name: "stop-engine", text: "SIGSTOP the engine, later SIGCONT", strike: hold("engine")},
	{name: "stop-sidecar", text: "SIGSTOP the engine's sidecar, later SIGCONT", strike: hold("sidecar")},
	{name: "stop-grouper", text: "SIGSTOP the grouper, later SIGCONT", strike: hold("group-a")},
	{name: "stop-bridge", text: "SIGSTOP the bridge, later SIGCONT", strike: hold("bridge")},
	{name: "stop-trainer", text: "SIGSTOP the trainer, later SIGCONT", strike: hold("trainer")},
	{name: "stop-nats", text: "SIGSTOP the NATS server, later SIGCONT", strike: hold("nats")},
	{name: "stop-nats-node", text: "SIGSTOP one of three NATS nodes, later SIGCONT", plan: threeNodes, strike: hold("n1", "n2", "n3")},
	{name: "two-groupers", text: "two groupers all along", plan: twoGroupers, strike: nothing},
	{name: "two-groupers-kill", text: "two groupers, one is killed -9", plan: twoGroupers, short: true, strike: kill("group-a", "group-b")},
	{name: "two-groupers-stop", text: "two groupers, one is stopped and continued", plan: twoGroupers, strike: hold("group-a", "group-b")},
	{name: "nats-restart", text: "NATS is stopped and started on its store", short: true, strike: restartNATS},
	{name: "net-cut", text: "one process's connection to NATS is cut, new ones are refused for a while", short: true, plan: oneClient, strike: cutOff},
	{name: "net-delay", text: "everything between one process and NATS is late", plan: oneClient, strike: slowDown},
	{name: "net-half-open", text: "one process's connection is half-open: silence, no end", plan: oneClient, strike: halfOpen},
	{name: "acks-duplicated", text: "acks of one process come twice", plan: oneClient, strike: meddling("duplicate")},
	{name: "acks-reordered", text: "acks of one process overtake each other", plan: oneClient, strike: meddling("reorder")},
	{name: "acks-withheld", text: "acks of one process are lost", plan: oneClient, short: true, strike: meddling("withhold")},
	{name: "disk-full", text: "the store's volume is full, then freed", plan: ownVolume, strike: fillVolume},
	{name: "clock", text: "one process comes back with its clock an hour off", strike: shiftClock},
	{name: "weights-torn", text: "a version's file is torn before engines load it", short: true, strike: spoilWeights("torn")},
	{name: "weights-replaced", text: "a version's file is replaced before engines load it", strike: spoilWeights("replaced")},
	{name: "checkpoint-torn", text: "the trainer is killed and its newest checkpoints are torn", short: true, strike: tearCheckpoint},
	{name: "bit-flip", text: "a bit flips in a block of the store while NATS is down", strike: flipBit},
	{name: "two-faults", text: "a fault during a fault", short: true, plan: twoGroupersOneClient, strike: two},
}

func nothing(context.Context, *world) (wound, error) { return wound{Text: "nothing"}, nil }

// restartNATS stops the server in good order.
func restartNATS(_ context.Context, w *world) (wound, error) {
	back, err := w.procs["nats"].crash(syscall.SIGTERM, w.between(50*time.Millisecond, 2*time.Second), nil)
	return wounded("restart", "nats", back), err
}
