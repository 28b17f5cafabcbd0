"""What a batch says of itself, in numbers: under the names of `headrace.trackers.names`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.batch import Batch


def batch_facts(batch: Batch) -> dict[str, float]:
    """Return the facts of a batch; call it before the batch is released. Copies, holds nothing.

    "completion" lengths count sampled tokens of a row, "prompt" lengths all others: what the
    environment said, in every turn.
    """
    out = {"reward_mean": batch.reward_mean, "rows": float(batch.rows)}
    out |= {f"staleness_{k}": float(v) for k, v in batch.staleness.items() if k in ("mean", "max")}
    if batch.groups:
        out["groups"] = float(len(batch.groups))
    arrays = batch.arrays
    out |= _rewards(batch, arrays)
    sampled, total = _lengths(batch.layout, arrays)
    real = total > 0
    if real.any():
        out |= _spread("completion", sampled[real])
        out |= _spread("prompt", (total - sampled)[real])
    advantages = _advantages(batch, arrays)
    if advantages.size:
        out |= _spread("advantage", advantages)
    return out


def _spread(name: str, x: np.ndarray) -> dict[str, float]:
    return {
        f"{name}_mean": float(x.mean()),
        f"{name}_min": float(x.min()),
        f"{name}_max": float(x.max()),
    }


def _rewards(batch: Batch, arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Spread of rewards, in layouts that have them, and how many groups have none."""
    if "rewards" not in arrays:
        return {}
    rewards = np.array(arrays["rewards"][: batch.rows], np.float64)
    if rewards.size == 0:
        return {}
    out = {
        "reward_std": float(rewards.std()),
        "reward_min": float(rewards.min()),
        "reward_max": float(rewards.max()),
    }
    spreads = [np.ptp(r) for g in batch.groups if (r := rewards[g.first : g.first + g.count]).size]
    if spreads:
        out["zero_std_fraction"] = float(np.mean(np.array(spreads) == 0))
    return out


def _lengths(layout: str, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Count the sampled and all tokens of each segment."""
    if layout == "prompt_completion":
        sampled = arrays["completion_mask"].sum(1, dtype=np.int64)
        prompt = arrays["prompt_mask"].sum(1, dtype=np.int64)
        after = np.count_nonzero(arrays["completion_ids"], axis=1)
        return sampled, prompt + np.maximum(after, sampled)
    mask = arrays["loss_mask"]
    if "segment_ids" not in arrays:
        lengths = arrays.get("lengths")
        total = np.count_nonzero(arrays["tokens"], axis=1) if lengths is None else np.array(lengths)
        return mask.sum(1, dtype=np.int64), total.astype(np.int64)
    ids = arrays["segment_ids"].astype(np.int64)
    most = int(ids.max(initial=0)) + 1
    where = (np.arange(len(ids))[:, None] * most + ids).ravel()
    size = len(ids) * most
    real = (np.arange(size) % most) > 0  # id 0 is padding
    sampled = np.bincount(where, mask.ravel(), minlength=size)[real]
    return sampled, np.bincount(where, minlength=size)[real]


def _advantages(batch: Batch, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """One a row; of packed rows one a sampled token."""
    if "advantages" not in arrays:
        return np.empty(0)
    advantages = np.array(arrays["advantages"], np.float64)
    return advantages[: batch.rows] if advantages.ndim == 1 else advantages[arrays["loss_mask"] > 0]
