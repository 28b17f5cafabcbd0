"""What we call a number, and what TRL and verl call it.

A number that is not here keeps its name. Those of TRL and verl that have no counterpart (the time
of a phase that runs in another process, say) are left out rather than guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

X_STEP = "training/global_step"
X_VERSION = "headrace/policy_version"
X_TOKENS = "num_tokens"
"""Three things to put on the x-axis: the step, the policy version, tokens trained on so far."""

NAMES: dict[str, tuple[str, ...]] = {
    # facts of the batch: its trajectories
    "reward_mean": ("reward", "critic/rewards/mean", "critic/score/mean"),
    "reward_std": ("reward_std",),
    "reward_min": ("critic/rewards/min", "critic/score/min"),
    "reward_max": ("critic/rewards/max", "critic/score/max"),
    "zero_std_fraction": ("frac_reward_zero_std",),
    "advantage_mean": ("critic/advantages/mean",),
    "advantage_min": ("critic/advantages/min",),
    "advantage_max": ("critic/advantages/max",),
    "completion_mean": ("completions/mean_length", "response_length/mean"),
    "completion_min": ("completions/min_length", "response_length/min"),
    "completion_max": ("completions/max_length", "response_length/max"),
    "prompt_mean": ("prompt_length/mean",),
    "prompt_min": ("prompt_length/min",),
    "prompt_max": ("prompt_length/max",),
    "staleness_mean": ("training/off_policy/trajectory_staleness/mean",),
    "staleness_max": ("training/off_policy/trajectory_staleness/max",),
    # what the trainer says of its step
    "loss": ("loss", "actor/pg_loss"),
    "kl": ("kl", "actor/kl_loss"),
    "entropy": ("entropy", "actor/entropy"),
    "grad_norm": ("grad_norm", "actor/grad_norm"),
    "lr": ("learning_rate", "actor/lr"),
    "clip_fraction": ("clip_ratio/region_mean", "actor/pg_clipfrac"),
    "logprob_diff_mean": ("sampling/sampling_logp_difference/mean",),
    "logprob_diff_max": ("sampling/sampling_logp_difference/max",),
    "is_weight_mean": ("sampling/importance_sampling_ratio/mean",),
    "is_weight_max": ("sampling/importance_sampling_ratio/max",),
    # time and amount
    "seconds": ("step_time", "timing_s/step", "perf/time_per_step"),
    "train_seconds": ("timing_s/update_actor",),
    "wait_seconds": ("headrace/wait_seconds",),
    "tokens": ("perf/total_num_tokens",),
    "tokens_per_second": ("perf/throughput",),
    "tokens_total": (X_TOKENS,),
    "rows": ("headrace/rows",),
    "groups": ("headrace/groups",),
    "compiles": ("headrace/compiles",),
    "compile_seconds": ("headrace/compile_seconds",),
}
"""Ours, and the names it is logged under: TRL's first where both have one, then verl's."""


def rename(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics under their names in TRL and verl; others under their own."""
    out: dict[str, float] = {}
    for name, value in metrics.items():
        out |= dict.fromkeys(NAMES.get(name, (name,)), float(value))
    return out
