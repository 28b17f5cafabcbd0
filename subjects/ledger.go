package subjects

// Entry is one message of the ledger: what the grouper decided together. It is
// appended by compare-and-set on the ledger's one subject and takes effect
// only once it is there.
type Entry struct {
	V int `msgpack:"v" json:"v"`
	// At is the grouper's clock when it decided, Unix nanoseconds: timers included.
	At int64 `msgpack:"at" json:"at"`
	// Writer names the grouper instance that wrote the entry.
	Writer string `msgpack:"by" json:"writer"`
	// Rollouts is the last ROLLOUTS sequence folded before deciding, Weights
	// the last WEIGHTS sequence.
	Rollouts uint64 `msgpack:"ro" json:"rollouts"`
	Weights  uint64 `msgpack:"we" json:"weights"`
	// Letters is the last DEADLETTER sequence folded before deciding: with the
	// two above, At and the recipe, all that the decisions follow from. 0 in
	// entries of versions that did not say.
	Letters uint64 `msgpack:"dl,omitempty" json:"letters,omitempty"`
	// Low is the first ROLLOUTS sequence that a fold from this entry's snapshot
	// needs: no group that is open or waits for its batch lies below it.
	Low uint64 `msgpack:"low" json:"low"`
	// Snapshot is the ledger sequence of the newest entry with a State at or
	// before this one; 0 means this one or none.
	Snapshot uint64 `msgpack:"snap,omitempty" json:"snapshot,omitempty"`
	// State, in entries that have it, is the fold's state after the entry: opaque
	// to all but the grouper that wrote it.
	State []byte `msgpack:"state,omitempty" json:"-"`

	Issued   []Issue      `msgpack:"iss,omitempty" json:"issued,omitempty"`
	Retries  []Retry      `msgpack:"ret,omitempty" json:"retries,omitempty"`
	Verdicts []Verdict    `msgpack:"ver,omitempty" json:"verdicts,omitempty"`
	Batches  []Batch      `msgpack:"bat,omitempty" json:"batches,omitempty"`
	Evals    []EvalResult `msgpack:"ev,omitempty" json:"evaluations,omitempty"`
	// End, when set, is the last thing the ledger of a run says: why it ended, one
	// of the words below. EndText is the sentence for people, where there is more to say.
	End     string `msgpack:"end,omitempty" json:"end,omitempty"`
	EndText string `msgpack:"endt,omitempty" json:"end_text,omitempty"`
}

// Why a run ended. The first two are what it was for; the rest are failures,
// which end a run only where its recipe says that a stall may (watchdog.end_after),
// but for an empty dataset and what a user cancels.
const (
	EndComplete     = "complete"      // its last step is trained and evaluated
	EndDataset      = "dataset_ended" // the dataset ended, and all of it that makes a batch is trained
	EndEmptyDataset = "empty_dataset" // there is nothing to play
	EndAllStale     = "all_stale"     // every group was too old for its batch
	EndAllFiltered  = "all_filtered"  // every group was dropped
	EndNoProducers  = "no_producers"  // nobody plays
	EndEngineGone   = "engine_gone"   // no engine serves
	EndDiskFull     = "disk_full"     // there is no room for what is produced or decided
	EndCancelled    = "cancelled"     // somebody said so
)

// Achieved reports whether a run that ended for this reason did what it was for.
func Achieved(end string) bool { return end == EndComplete || end == EndDataset }

// Issue opens Count groups from ordinal First on (training), or the evaluation
// round Round. Their tasks follow from the recipe alone.
type Issue struct {
	Kind  Kind   `msgpack:"k" json:"kind"`
	First uint64 `msgpack:"n" json:"first"`
	Count int    `msgpack:"c" json:"count"`
	Round Step   `msgpack:"rd,omitempty" json:"round,omitempty"`
	// Step is the trainer's committed step that allowed it.
	Step Step `msgpack:"st" json:"step"`
}

// Retry hands a slot out again.
type Retry struct {
	Kind    Kind    `msgpack:"k" json:"kind"`
	Group   GroupID `msgpack:"g" json:"group"`
	Slot    Slot    `msgpack:"s" json:"slot"`
	Attempt Attempt `msgpack:"a" json:"attempt"` // the new one
	Reason  string  `msgpack:"why,omitempty" json:"reason,omitempty"`
}

// Outcome is how a group closed.
type Outcome string

// The outcomes of a group.
const (
	Kept         Outcome = "kept"          // goes into a batch, whole
	Partial      Outcome = "partial"       // goes into a batch with fewer than it asked for, at least the minimum
	ZeroVariance Outcome = "zero_variance" // dropped: all rewards equal, nothing to learn
	Expired      Outcome = "expired"       // dropped: its deadline passed below the minimum
	TooFew       Outcome = "too_few"       // dropped: too many slots failed for good
	Stale        Outcome = "stale"         // dropped: older than the staleness bound when its batch was cut
	Cancelled    Outcome = "cancelled"     // dropped: the run ended first
)

// Trained reports whether a group with this outcome goes into a batch.
func (o Outcome) Trained() bool { return o == Kept || o == Partial }

// Verdict closes a group, once. A kept group that never reaches a batch gets a
// second one, stale or cancelled, when that is known: the last one counts.
type Verdict struct {
	Group   GroupID `msgpack:"g" json:"group"`
	Outcome Outcome `msgpack:"o" json:"outcome"`
	// Members are the trajectories it closed with, by slot; those of a dropped
	// group too. Nothing else of the group is ever used.
	Members []Member `msgpack:"m" json:"members"`
	// Unused counts what arrived for the group and is not a member: late,
	// duplicate, failed for good, beyond the first G.
	Unused int `msgpack:"un,omitempty" json:"unused,omitempty"`
	// Opened and Closed are the grouper's clock, Unix nanoseconds.
	Opened int64 `msgpack:"t0" json:"opened"`
	Closed int64 `msgpack:"t1" json:"closed"`
}

// Member is one trajectory of a group and where it lies.
type Member struct {
	Slot    Slot    `msgpack:"s" json:"slot"`
	Attempt Attempt `msgpack:"a" json:"attempt"`
	// Seq and Index are its address; Offset and Length its place in the bundle.
	Seq      uint64  `msgpack:"q" json:"seq"`
	Index    int     `msgpack:"i" json:"index"`
	Offset   int     `msgpack:"f" json:"offset"`
	Length   int     `msgpack:"l" json:"length"`
	Checksum uint32  `msgpack:"x" json:"checksum"`
	Status   Status  `msgpack:"st" json:"status"`
	Reward   float64 `msgpack:"r" json:"reward"`
	Segments int     `msgpack:"n" json:"segments"`
	Tokens   int     `msgpack:"t" json:"tokens"`
	Longest  int     `msgpack:"lg" json:"longest"`
	// MinVersion and MaxVersion are the oldest and newest policy that sampled it.
	MinVersion PolicyVersion `msgpack:"v0" json:"min_version"`
	MaxVersion PolicyVersion `msgpack:"v1" json:"max_version"`
	// Advantage is set in batches: the group-relative advantage of every trained token.
	Advantage float64 `msgpack:"ad,omitempty" json:"advantage,omitempty"`
	// Masked members keep their place in the baseline but are not trained on
	// (overlong policy "mask").
	Masked bool `msgpack:"mk,omitempty" json:"masked,omitempty"`
}

// Batch is the manifest of one step: everything the trainer will see.
type Batch struct {
	Step   Step         `msgpack:"n" json:"step"`
	Groups []BatchGroup `msgpack:"g" json:"groups"`
	// Rows, Tokens and Longest are totals over segments: the array shape
	// follows from them before a body is read.
	Rows    int `msgpack:"rows" json:"rows"`
	Tokens  int `msgpack:"t" json:"tokens"`
	Longest int `msgpack:"lg" json:"longest"`
	// Watermark is the lowest ROLLOUTS sequence that this or a later batch
	// needs: below it the log is only history.
	Watermark uint64 `msgpack:"wm" json:"watermark"`
	// StalenessMean and StalenessMax are over members, by their oldest version, in steps.
	StalenessMean float64 `msgpack:"sm" json:"staleness_mean"`
	StalenessMax  int64   `msgpack:"sx" json:"staleness_max"`
	RewardMean    float64 `msgpack:"rm" json:"reward_mean"`
}

// BatchGroup is one group of a batch.
type BatchGroup struct {
	Group       GroupID  `msgpack:"g" json:"group"`
	Environment string   `msgpack:"e" json:"environment"`
	Members     []Member `msgpack:"m" json:"members"`
}

// EvalResult is one finished evaluation round.
type EvalResult struct {
	Round   Step    `msgpack:"rd" json:"step"`
	Tasks   int     `msgpack:"n" json:"tasks"`
	Sampled float64 `msgpack:"r" json:"reward"` // mean reward at the recipe's temperature
	Greedy  float64 `msgpack:"g" json:"greedy"` // mean reward at temperature 0
	// Failed counts episodes without a result.
	Failed     int           `msgpack:"f" json:"failed"`
	MinVersion PolicyVersion `msgpack:"v0" json:"min_version"`
	MaxVersion PolicyVersion `msgpack:"v1" json:"max_version"`
}
