"""Batches, demonstrations and settings for a model so small that a step costs milliseconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.fakebridge import FakeBatch

VOCAB, CONTEXT = 32, 32
MODEL = {
    "vocab_size": VOCAB,
    "d_model": 16,
    "layers": 1,
    "heads": 2,
    "d_ff": 32,
    "max_context": CONTEXT,
}
GOOD = 7
"""Advantages favour this token."""


def episodes(
    step: int, rows: int = 8, *, context: int = CONTEXT, turns: int = 3
) -> dict[str, np.ndarray]:
    """Arrays of a padded batch: several turns a row, an empty last row, lengths that differ."""
    rng = np.random.default_rng(step)
    tokens = rng.integers(3, VOCAB, (rows, context)).astype(np.int32)
    mask = np.zeros((rows, context), np.uint8)
    lengths = rng.integers(context // 2, context, rows)
    for row, length in enumerate(lengths):
        for start in rng.choice(np.arange(2, length - 2), turns, replace=False):
            mask[row, start : start + 2] = 1
        tokens[row, length:] = 0
        mask[row, length:] = 0
    mask[-1] = 0
    good = ((tokens == GOOD) * mask).sum(1)
    return {
        "tokens": tokens,
        "loss_mask": mask,
        "logprobs": (np.log(1 / VOCAB) + rng.normal(0, 0.1, tokens.shape)).astype(np.float32)
        * mask,
        "advantages": (good - good.mean()).astype(np.float32),
    }


def packed(arrays: Mapping[str, np.ndarray], per_row: int = 2) -> dict[str, np.ndarray]:
    """The same episodes, `per_row` of them behind one another in each row."""
    rows, context = arrays["tokens"].shape
    shape = (rows // per_row, context * per_row)
    lengths = (arrays["tokens"] > 0).sum(1)
    out = {
        "tokens": np.zeros(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "positions": np.zeros(shape, np.int32),
        "loss_mask": np.zeros(shape, np.uint8),
        "logprobs": np.zeros(shape, np.float32),
        "advantages": np.zeros(shape, np.float32),
    }
    for row in range(rows):
        to, n, seg = row // per_row, int(lengths[row]), row % per_row + 1
        at = int((out["segment_ids"][to] > 0).sum())
        for name in ("tokens", "loss_mask", "logprobs"):
            out[name][to, at : at + n] = arrays[name][row, :n]
        out["segment_ids"][to, at : at + n] = seg
        out["positions"][to, at : at + n] = np.arange(n)
        out["advantages"][to, at : at + n] = (
            arrays["advantages"][row] * arrays["loss_mask"][row, :n]
        )
    return out


def prompt_completion(arrays: Mapping[str, np.ndarray], prompt: int = 12) -> dict[str, np.ndarray]:
    """The same episodes, cut at their first sampled token."""
    rows, context = arrays["tokens"].shape
    out = {
        "prompt_ids": np.zeros((rows, context), np.int32),
        "prompt_mask": np.zeros((rows, context), np.uint8),
        "completion_ids": np.zeros((rows, context), np.int32),
        "completion_mask": np.zeros((rows, context), np.uint8),
        "old_logprobs": np.zeros((rows, context), np.float32),
        "advantages": arrays["advantages"],
    }
    for row in range(rows):
        mask = arrays["loss_mask"][row]
        cut = int(mask.argmax()) if mask.any() else 4
        out["prompt_ids"][row, context - cut :] = arrays["tokens"][row, :cut]
        out["prompt_mask"][row, context - cut :] = 1
        out["completion_ids"][row, : context - cut] = arrays["tokens"][row, cut:]
        out["completion_mask"][row, : context - cut] = mask[cut:]
        out["old_logprobs"][row, : context - cut] = arrays["logprobs"][row, cut:]
    return out


def source(last: int) -> Any:
    def batch(step: int) -> FakeBatch | None:
        if step > last:
            return None
        meta = {"rows": 7, "tokens": 100, "reward_mean": 0.5, "staleness": {"mean": 1, "max": 1}}
        return FakeBatch(episodes(step), meta=meta)

    return batch


def demos(path: Path, count: int = 16) -> str:
    """Episodes whose imitated token is always GOOD."""
    rng = np.random.default_rng(0)
    with path.open("w") as f:
        for _ in range(count):
            ids = rng.integers(3, VOCAB, 12).tolist()
            ids[4] = ids[9] = GOOD
            f.write(json.dumps({"ids": ids, "mask": [[4, 5], [9, 10]], "reward": 1}) + "\n")
    return str(path)


def welcome(where: Path, trainer: Mapping[str, Any] | None = None, **paths: str) -> dict[str, Any]:
    defaults = {"lr": 0.01, "micro_batch": 4, "buckets": [24, 32], "entropy": 0.01}
    folders = {"weights": str(where / "weights"), "checkpoints": str(where / "checkpoints")}
    return {
        "trainer": {**defaults, **(trainer or {})},
        "model": MODEL,
        "paths": {**folders, "demos": None, **paths},
    }
