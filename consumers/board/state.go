package board

import (
	"encoding/json"

	"github.com/headrace/headrace/subjects"
)

func unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

// State is what is known of a run now. Times are Unix seconds, durations
// seconds, fractions 0 to 1. Lists are never null in JSON.
type State struct {
	Run          subjects.Run `json:"run"`
	Recipe       string       `json:"recipe"`
	Environments []string     `json:"environments"`
	Started      Number       `json:"started"`
	Now          Number       `json:"now"`
	// End is why the run ended, empty while it goes on; EndText the sentence.
	End     string `json:"end"`
	EndText string `json:"end_text"`
	// Live: some role was heard of in the last ten seconds.
	Live bool `json:"live"`

	Step         StepState    `json:"step"`
	Evals        []Eval       `json:"evals"`
	Trainer      Trainer      `json:"trainer"`
	Engines      []Engine     `json:"engines"`
	Producers    []Producer   `json:"producers"` // those heard of last first, at most 200
	ProducersAll int          `json:"producers_total"`
	Queues       []Queue      `json:"queues"`
	Groups       Groups       `json:"groups"`
	Trajectories Trajectories `json:"trajectories"`
	Staleness    Staleness    `json:"staleness"`
	// StalenessMaxAllowed is the recipe's bound, in steps.
	StalenessMaxAllowed int64    `json:"staleness_max_allowed"`
	Rates               Rates    `json:"rates"`
	Syncs               []Sync   `json:"syncs"` // the last 50, newest first
	Stall               *Stall   `json:"stall"`
	Advice              []Advice `json:"advice"` // the first is what limits the run now
	Roles               []Role   `json:"roles"`
}

// StepState is how far the run is.
type StepState struct {
	Committed int64 `json:"committed"` // the last step the trainer applied
	Cut       int64 `json:"cut"`       // the last step whose batch is in the ledger
	Max       int64 `json:"max"`       // the recipe's steps; 0: until the dataset ends
}

// Eval is one finished evaluation round.
type Eval struct {
	Round   int64  `json:"round"` // the step it measures
	Tasks   int    `json:"tasks"`
	Sampled Number `json:"sampled"` // mean reward at the recipe's temperature
	Greedy  Number `json:"greedy"`  // mean reward at temperature 0
	Failed  int    `json:"failed"`
	At      Number `json:"at"`
	// MinVersion and MaxVersion are the oldest and newest policy that played it.
	MinVersion int64 `json:"min_version"`
	MaxVersion int64 `json:"max_version"`
}

// Trainer is where the trainer's time goes.
type Trainer struct {
	Connected int `json:"connected"` // trainers at the bridge; 0 too where no bridge is heard of
	// Seconds are those since the run's start; Recent the parts of the trainer's
	// last minute, or of its last four steps where they take longer. Both are
	// whole: the categories do not overlap.
	Seconds Times `json:"seconds"`
	Recent  Times `json:"recent"`
	// RecentSeconds is how long Recent looks back.
	RecentSeconds Number `json:"recent_seconds"`
	// Wait is the part of the trainer's time that it waited for a batch, the one
	// definition that every view shares: see [Board.State].
	Wait Number `json:"wait_fraction"`
	// NowWait and NowTrain are how long it has waited for the step that it is at, and
	// trained it; unknown before its first, between two, and where no bridge says.
	NowWait         Number `json:"now_wait_seconds"`
	NowTrain        Number `json:"now_train_seconds"`
	StepSeconds     Number `json:"step_seconds"` // median of the last 20
	TokensPerSecond Number `json:"tokens_per_second"`
	Compiles        int64  `json:"compiles"`
	Resumes         int64  `json:"resumes"` // starts after the first
	// Version is the newest policy version announced, -1 before the first.
	Version int64 `json:"version"`
	// Checkpoint is the last step that a checkpoint covers.
	Checkpoint int64 `json:"checkpoint"`
}

// Times are the trainer's time by what it did. Train is without what it compiled.
type Times struct {
	Wait       Number `json:"wait"`
	Train      Number `json:"train"`
	Checkpoint Number `json:"checkpoint"`
	Publish    Number `json:"publish"`
	Prepare    Number `json:"prepare"`
	Compile    Number `json:"compile"`
	Start      Number `json:"start"`
}

// Engine is one inference engine.
type Engine struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Version int64  `json:"version"`
	Ready   bool   `json:"ready"`
	Heard   Number `json:"heard"` // seconds ago
	Running Number `json:"running"`
	Waiting Number `json:"waiting"`
	// TokenUsage is the part of its cache in use.
	TokenUsage Number `json:"token_usage"`
	// Busy is the part of the last ten seconds that its device computed.
	Busy            Number `json:"busy"`
	PausedFraction  Number `json:"paused_fraction"` // of the last minute, for new weights
	TokensPerSecond Number `json:"tokens_per_second"`
	// CacheHit is the part of the prompt tokens of the last minute that were cached.
	CacheHit Number `json:"cache_hit"`
	// RowFill is the part of the rows of the last minute's device calls that were in use.
	RowFill Number `json:"row_fill"`
}

// Producer is one process that plays.
type Producer struct {
	Name      string `json:"name"`
	Heard     Number `json:"heard"` // seconds ago
	Slots     Number `json:"slots"`
	Live      Number `json:"live"` // episodes
	Held      Number `json:"held"` // leases
	Published Number `json:"published"`
	Failed    Number `json:"failed"`
	// GenerateFraction and EnvFraction are parts of the time of its episodes in
	// the last minute, spent in calls of an engine and of the environment.
	GenerateFraction Number `json:"generate_fraction"`
	EnvFraction      Number `json:"env_fraction"`
	Blocked          bool   `json:"blocked"` // ROLLOUTS is full, or the bus is gone
}

// Queue is what waits between two stages.
type Queue struct {
	Name         string `json:"name"` // tasks, publisher, rollouts, kept, ready
	Label        string `json:"label"`
	Trajectories Number `json:"trajectories"`
	Bytes        Number `json:"bytes"`
}

// Groups is the account of the training groups.
type Groups struct {
	Issued   int64                      `json:"issued"`
	Open     Number                     `json:"open"`
	Kept     Number                     `json:"kept"` // wait for their batch
	Oldest   Number                     `json:"oldest_seconds"`
	Outcomes map[subjects.Outcome]int64 `json:"outcomes"` // each group once, by its last verdict
	Retries  int64                      `json:"retries"`
	Ages     Histogram                  `json:"ages"` // of those closed in the last ten minutes, opened to closed
}

// Histogram counts values: Counts[i] are those up to Edges[i] and above the edge
// before, the last count those above all edges.
type Histogram struct {
	Edges  []float64 `json:"edges"`
	Counts []int64   `json:"counts"`
}

// Trajectories is the account of the training trajectories: Produced is Trained,
// Dropped and Open together.
type Trajectories struct {
	Produced         int64            `json:"produced"`
	Trained          int64            `json:"trained"`
	Dropped          map[string]int64 `json:"dropped"` // by reason
	Open             int64            `json:"open"`
	EvaluationUnused int64            `json:"evaluation_unused"`
}

// Staleness counts the members of the last 50 batches by how many steps their
// oldest token was behind. The last count takes what is further behind, too.
type Staleness struct {
	Versions     []int64 `json:"versions"`
	Trajectories []int64 `json:"trajectories"`
}

// Rates are of the last ten seconds, the trainer's of its last steps.
type Rates struct {
	Trajectories  Number `json:"trajectories_per_second"`
	Tokens        Number `json:"tokens_per_second"` // sampled by engines
	TrainedTokens Number `json:"trained_tokens_per_second"`
	Bytes         Number `json:"bytes_per_second"` // of bodies
}

// Sync is one engine's step to a version of the weights.
type Sync struct {
	Version int64  `json:"version"`
	Engine  string `json:"engine"`
	At      Number `json:"at"`
	Seconds Number `json:"seconds"` // the sum of the four
	Pause   Number `json:"pause"`
	Load    Number `json:"load"`
	Verify  Number `json:"verify"`
	Resume  Number `json:"resume"`
	Error   string `json:"error"`
}

// Stall is why the run stands still.
type Stall struct {
	Code  subjects.StallCode `json:"code"`
	Stage string             `json:"stage"`
	Text  string             `json:"text"`
	Since Number             `json:"since"`
}

// Advice is one sentence for what limits the run.
type Advice struct {
	Code     string     `json:"code"`
	Text     string     `json:"text"`
	Knob     string     `json:"knob"` // what to turn, with how
	Evidence []Evidence `json:"evidence"`
	Since    Number     `json:"since"`
}

// Evidence is a figure behind an advice.
type Evidence struct {
	Name  string `json:"name"`
	Value Number `json:"value"`
	Unit  string `json:"unit"`
}

// Role is what a process says of itself.
type Role struct {
	Role     string `json:"role"`
	Instance string `json:"instance"`
	Text     string `json:"text"`
	Heard    Number `json:"heard"`
}
