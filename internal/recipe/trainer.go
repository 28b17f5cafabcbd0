package recipe

import (
	"slices"
	"strconv"
	"strings"
)

// Trainer configures the reference GRPO trainer. It travels to the Python
// process as it is, under these names.
type Trainer struct {
	// Seed of the weights' initialisation and of every draw the trainer makes.
	// Default: the recipe's seed.
	Seed int `yaml:"seed" json:"seed"`
	// Steps to train. Required.
	Steps int `yaml:"steps" json:"steps"`
	// LR is AdamW's learning rate.
	LR float64 `yaml:"lr" json:"lr"`
	// Betas are AdamW's decay rates.
	Betas []float64 `yaml:"betas" json:"betas"`
	// WeightDecay is AdamW's, decoupled.
	WeightDecay float64 `yaml:"weight_decay" json:"weight_decay"`
	// GradClip bounds the gradient's global norm; 0 means no bound.
	GradClip float64 `yaml:"grad_clip" json:"grad_clip"`
	// ClipLow and ClipHigh bound the probability ratio to [1-low, 1+high].
	ClipLow  float64 `yaml:"clip_low" json:"clip_low"`
	ClipHigh float64 `yaml:"clip_high" json:"clip_high"`
	// DualClip bounds the loss of negative advantages at this multiple; 0 means off.
	DualClip float64 `yaml:"dual_clip" json:"dual_clip"`
	// KLBeta weighs the divergence from the reference policy; 0 means none is kept.
	KLBeta float64 `yaml:"kl_beta" json:"kl_beta"`
	// KLMode is the estimator: kl, mse_kl or low_var_kl.
	KLMode string `yaml:"kl_mode" json:"kl_mode"`
	// Entropy weighs the entropy bonus.
	Entropy float64 `yaml:"entropy" json:"entropy"`
	// Aggregation of token losses: token-mean, sequence-mean-token-mean,
	// sequence-mean-token-scale, seq-mean-token-sum or sequence-mean-token-sum-norm.
	Aggregation string `yaml:"aggregation" json:"aggregation"`
	// ImportanceSampling corrects for the sampler's logprobs differing from
	// the trainer's.
	ImportanceSampling ImportanceSampling `yaml:"importance_sampling" json:"importance_sampling"`
	// MicroBatch is the number of rows a forward and backward pass takes.
	MicroBatch int `yaml:"micro_batch" json:"micro_batch"`
	// Buckets are the row lengths that micro-batches are cut to: each is
	// compiled once. Empty: the bridge's.
	Buckets []int `yaml:"buckets" json:"buckets"`
	// CheckpointEvery saves a checkpoint after this many steps, and one at the end.
	CheckpointEvery int `yaml:"checkpoint_every" json:"checkpoint_every"`
	// CheckpointKeep is how many checkpoints stay on disk.
	CheckpointKeep int `yaml:"checkpoint_keep" json:"checkpoint_keep"`
	// SyncEvery publishes weights after this many steps.
	SyncEvery int `yaml:"sync_every" json:"sync_every"`
	// WaitWeights holds the trainer after publishing until engines have loaded.
	WaitWeights WaitWeights `yaml:"wait_weights" json:"wait_weights"`
	// WarmStart teaches the format by supervised learning before step 1.
	WarmStart WarmStart `yaml:"warm_start" json:"warm_start"`
	// Trackers that each step is logged to: wandb, tensorboard, mlflow, trackio.
	// Their packages come with pip install 'headrace[trackers]'.
	Trackers []string `yaml:"trackers" json:"trackers,omitempty"`
	// Profile takes a JAX profile of some steps.
	Profile Profile `yaml:"profile" json:"profile,omitzero"`
}

// ImportanceSampling is truncated importance sampling between the sampler's
// and the trainer's logprobs of the same tokens under the same weights.
type ImportanceSampling struct {
	// Mode is none or token.
	Mode string `yaml:"mode" json:"mode"`
	// Cap truncates the weight.
	Cap float64 `yaml:"cap" json:"cap"`
}

// WaitWeights says which engines must have loaded a version before the next step.
type WaitWeights struct {
	// Need is none, quorum or all.
	Need string `yaml:"need" json:"need"`
	// TimeoutS bounds the wait, in seconds; then the trainer goes on.
	TimeoutS float64 `yaml:"timeout_s" json:"timeout_s"`
}

// WarmStart is the supervised phase before GRPO.
type WarmStart struct {
	// Steps of it; 0 means none.
	Steps int `yaml:"steps" json:"steps"`
	// Batch is the episodes a step sees.
	Batch int `yaml:"batch" json:"batch"`
	// LR is its learning rate.
	LR float64 `yaml:"lr" json:"lr"`
}

// Profile says which steps the JAX profiler records: beside the checkpoints, in
// profiles/, where `headrace trace` finds what its window has.
type Profile struct {
	// Steps as 40 or 40..42, at most 100; empty means none. HEADRACE_PROFILE_STEPS
	// goes before it.
	Steps string `yaml:"steps" json:"steps,omitempty"`
	// Keep is how many profiles stay on disk; 0 means 3.
	Keep int `yaml:"keep" json:"keep,omitempty"`
}

// DefaultTrainer is what fields left out of a recipe are.
func DefaultTrainer() Trainer {
	return Trainer{
		Seed: -1, LR: 1e-3, Betas: []float64{0.9, 0.95}, GradClip: 1, ClipLow: 0.2, ClipHigh: 0.28,
		KLMode: "low_var_kl", Aggregation: "token-mean",
		ImportanceSampling: ImportanceSampling{Mode: "none", Cap: 2},
		MicroBatch:         32, CheckpointEvery: 20, CheckpointKeep: 2, SyncEvery: 1,
		WaitWeights: WaitWeights{Need: "none", TimeoutS: 30},
		WarmStart:   WarmStart{Batch: 32, LR: 3e-3},
	}
}

func (t *Trainer) validate() error {
	for _, c := range []struct {
		field   string
		value   string
		allowed []string
	}{
		{"trainer.kl_mode", t.KLMode, []string{"kl", "mse_kl", "low_var_kl"}},
		{"trainer.aggregation", t.Aggregation, []string{"token-mean", "sequence-mean-token-mean",
			"sequence-mean-token-scale", "seq-mean-token-sum", "sequence-mean-token-sum-norm"}},
		{"trainer.importance_sampling.mode", t.ImportanceSampling.Mode, []string{"none", "token"}},
		{"trainer.wait_weights.need", t.WaitWeights.Need, []string{"none", "quorum", "all"}},
	} {
		if !slices.Contains(c.allowed, c.value) {
			return fieldErrorf(c.field, "%q; allowed: %v", c.value, c.allowed)
		}
	}
	if len(t.Betas) != 2 || !within(t.Betas[0], 0, 1) || !within(t.Betas[1], 0, 1) {
		return fieldErrorf("trainer.betas", "%v; want two numbers in [0, 1)", t.Betas)
	}
	for _, k := range t.Trackers {
		if trackers := []string{"wandb", "tensorboard", "mlflow", "trackio"}; !slices.Contains(trackers, k) {
			return fieldErrorf("trainer.trackers", "%q; allowed: %v", k, trackers)
		}
	}
	if s := t.Profile.Steps; s != "" && !profiled(s) {
		return fieldErrorf("trainer.profile.steps", "%q; want a step, or steps as in 40..42, 100 at most", s)
	}
	return t.validateRanges()
}

// profiled reports whether a text names steps to profile.
func profiled(steps string) bool {
	a, b, ranged := strings.Cut(steps, "..")
	if !ranged {
		b = a
	}
	first, err := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	return err == nil && err2 == nil && first >= 1 && last >= first && last < first+100
}

func (t *Trainer) validateRanges() error {
	for _, c := range []struct {
		field string
		bad   bool
		want  string
	}{
		{"trainer.steps", t.Steps < 1, "at least 1"},
		{"trainer.lr", t.LR <= 0, "above 0"},
		{"trainer.weight_decay", t.WeightDecay < 0, "at least 0"},
		{"trainer.grad_clip", t.GradClip < 0, "at least 0"},
		{"trainer.clip_low", t.ClipLow <= 0 || t.ClipLow >= 1, "in (0, 1)"},
		{"trainer.clip_high", t.ClipHigh <= 0, "above 0"},
		{"trainer.dual_clip", t.DualClip != 0 && t.DualClip <= 1, "0 or above 1"},
		{"trainer.kl_beta", t.KLBeta < 0, "at least 0"},
		{"trainer.entropy", t.Entropy < 0, "at least 0"},
		{"trainer.profile.keep", t.Profile.Keep < 0, "at least 0"},
		{"trainer.importance_sampling.cap", t.ImportanceSampling.Cap < 1, "at least 1"},
		{"trainer.micro_batch", t.MicroBatch < 1, "at least 1"},
		{"trainer.checkpoint_every", t.CheckpointEvery < 1, "at least 1"},
		{"trainer.checkpoint_keep", t.CheckpointKeep < 1, "at least 1"},
		{"trainer.sync_every", t.SyncEvery < 1, "at least 1"},
		{"trainer.wait_weights.timeout_s", t.WaitWeights.TimeoutS < 0, "at least 0"},
		{"trainer.warm_start.steps", t.WarmStart.Steps < 0, "at least 0"},
		{"trainer.warm_start.batch", t.WarmStart.Batch < 1, "at least 1"},
		{"trainer.warm_start.lr", t.WarmStart.LR <= 0, "above 0"},
	} {
		if c.bad {
			return fieldErrorf(c.field, "must be %s", c.want)
		}
	}
	return nil
}

func within(v, low, high float64) bool { return v >= low && v < high }
