"""Supervised learning on demonstrations: teaches the format before reinforcement begins.

Demonstrations are a JSONL file, one episode a line: ``{"ids": [...], "mask": [[start, end], ...],
"reward": r}``, where the spans of `mask` are the tokens to imitate.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.trainer.learner import SUPERVISED, Learner, State, metrics_of
from headrace.trainer.rows import Rows, micro_batches

BETAS, WEIGHT_DECAY, GRAD_CLIP = (0.9, 0.98), 0.01, 1.0
"""AdamW's settings for this phase."""

Progress = Callable[[int, int, float], None]
"""Called with steps done, steps in total, and the loss (nats per imitated token)."""


@dataclass(frozen=True)
class Demonstrations:
    """Episodes to imitate: rows of one width, and the mean reward of the demonstrator."""

    rows: Rows
    reward_mean: float

    def __len__(self) -> int:
        return len(self.rows.tokens)


def read(path: str | os.PathLike[str], *, vocab_size: int, max_tokens: int) -> Demonstrations:
    """Read a JSONL file; episodes are cut to `max_tokens`. Raises `ValueError` with the line."""
    episodes, rewards = [], []
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        if line.strip():
            try:
                obj = json.loads(line)
                episodes.append(_episode(obj, vocab_size, max_tokens))
                rewards.append(float(obj.get("reward", 0.0)))
            except (ValueError, KeyError, TypeError, AttributeError) as err:
                raise ValueError(f"read {path}: line {number}: {err!r}") from err
    if not episodes:
        raise ValueError(f"read {path}: no demonstrations")
    return Demonstrations(_rows(episodes), float(np.mean(rewards)))


def _episode(obj: dict, vocab_size: int, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    ids = np.asarray(obj["ids"], np.int32)[:max_tokens]
    if ids.ndim != 1 or len(ids) == 0 or ids.min() < 0 or ids.max() >= vocab_size:
        raise ValueError(f"ids must be a list of numbers from 0 to {vocab_size - 1}")
    mask = np.zeros(len(ids), np.float32)
    for start, end in obj["mask"]:
        if not 0 <= start <= end <= len(obj["ids"]):
            raise ValueError(f"span [{start}, {end}] is outside the episode")
        mask[start:end] = 1
    mask[0] = 0  # nothing predicts the first token
    return ids, mask


def _rows(episodes: list[tuple[np.ndarray, np.ndarray]]) -> Rows:
    shape = (len(episodes), max(len(ids) for ids, _ in episodes))
    tokens, mask = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for i, (ids, m) in enumerate(episodes):
        tokens[i, : len(ids)], mask[i, : len(ids)] = ids, m
    return Rows(tokens, mask, np.zeros(shape, np.float32), mask)


def train(
    learner: Learner,
    state: State,
    demos: Demonstrations,
    *,
    steps: int,
    batch: int,
    seed: int,
    buckets: tuple[int, ...],
    micro_batch: int,
    on_progress: Progress,
    stop: Callable[[], bool] = lambda: False,
) -> State:
    """Take `steps` supervised steps of `batch` episodes; `learner` has this phase's optimizer.

    `stop` is asked before each step. `on_progress` makes the host wait for the device.
    """
    rows = demos.rows
    for done, chosen in enumerate(_order(len(demos), steps, batch, seed), 1):
        if stop():
            break
        picked = Rows(*(x[chosen] for x in (rows.tokens, rows.mask, rows.logprobs, rows.mask)))
        micros = micro_batches(picked, micro_batch, buckets, "token-mean")
        state, raw = learner.step(state, micros, SUPERVISED)
        if done == 1 or done % 10 == 0 or done == steps:
            on_progress(done, steps, metrics_of(raw)["nll"])
    return state


def _order(episodes: int, steps: int, batch: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the episodes of each step: permutations of all, one after the other, cut to batches."""
    rng = np.random.default_rng(seed)
    left = np.empty(0, np.int64)
    for _ in range(steps):
        while len(left) < batch:
            left = np.concatenate([left, rng.permutation(episodes)])
        yield left[:batch]
        left = left[batch:]
