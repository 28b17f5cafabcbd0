package subjects

// StallCode says why a run stands still.
type StallCode string

// Why a run stands still, most of them found by the watchdog beside the grouper.
const (
	NoProducers      StallCode = "no_producers"      // none is connected, or none takes a task
	NoEngine         StallCode = "no_engine"         // none is registered, has weights, or serves the version waited for
	SlotsLeased      StallCode = "slots_leased"      // producers hold the tasks and nothing comes of them
	AllZeroVariance  StallCode = "all_zero_variance" // every group's rewards are equal
	AllStale         StallCode = "all_stale"         // every group is too old for its batch
	AllFiltered      StallCode = "all_filtered"      // every group is dropped, for several reasons or another one
	WaitingTrainer   StallCode = "waiting_trainer"   // none is connected, or it neither asks nor commits
	BridgeGone       StallCode = "bridge_gone"       // nothing is heard of a bridge, or of its inspector
	InspectorBehind  StallCode = "inspector_behind"  // the bridge has not read what was produced
	RolloutsFull     StallCode = "rollouts_full"     // ROLLOUTS has no room for what was played
	DiskFull         StallCode = "disk_full"         // the server has no room for the ledger
	GrouperGone      StallCode = "grouper_gone"      // the bridge hears nothing of a grouper
	BusUnreachable   StallCode = "bus_unreachable"   // no server answers
	TrainerHoldsRing StallCode = "slots_held"        // the trainer holds every slot of its ring
	NoBatch          StallCode = "no_batch"          // none of these is known: the batch is not there yet
)

// StallCodes lists every code.
func StallCodes() []StallCode {
	return []StallCode{NoProducers, NoEngine, SlotsLeased, AllZeroVariance, AllStale, AllFiltered, WaitingTrainer, BridgeGone,
		InspectorBehind, RolloutsFull, DiskFull, GrouperGone, BusUnreachable, TrainerHoldsRing, NoBatch}
}

// The stages that a stall is in.
const (
	StageProducer = "producer"
	StageEngine   = "engine"
	StageGrouper  = "grouper"
	StageBridge   = "bridge"
	StageTrainer  = "trainer"
	StageBus      = "bus"
)

// Stall is the watchdog's report: which stage holds the run up, and why. On
// TELEMETRY it is a stall that lasted as long as the recipe says, or, with an
// empty Code, the end of one; on [Run.StallSubject] it is what is waited for now.
type Stall struct {
	V     int       `msgpack:"v" json:"v"`
	Stage string    `msgpack:"stage" json:"stage"`
	Code  StallCode `msgpack:"code" json:"code"` // empty: the run moves again
	// Text is the sentence for people.
	Text string `msgpack:"text" json:"text"`
	// Since is when the run last moved, At when this was said, Unix nanoseconds.
	Since int64 `msgpack:"since" json:"since"`
	At    int64 `msgpack:"at" json:"at"`
	// End is why the run ends now, where the ledger has no room to say it.
	End string `msgpack:"end,omitempty" json:"end,omitempty"`
}

// Seconds is how long the run had been standing when this was said.
func (s *Stall) Seconds() float64 { return float64(max(0, s.At-s.Since)) / 1e9 }

// WatchdogRole is the role under which stalls are in TELEMETRY.
const WatchdogRole = "watchdog"

// StallSubject carries, outside any stream, what the grouper waits for, once it
// has waited some seconds: a [Stall], repeated every two seconds.
func (r Run) StallSubject() string { return "hr." + string(r) + ".live.stall" }

// HeldLease is a task in a producer's hands.
type HeldLease struct {
	Task string  `msgpack:"id" json:"id"`   // group/slot/attempt
	Age  float64 `msgpack:"age" json:"age"` // seconds since it was leased
}
