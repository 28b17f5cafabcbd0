"""The arguments of a device call, packed into three arrays: cheap to fill, cheap to hand over."""

from __future__ import annotations

import dataclasses

import numpy as np

STOPS = 8
"""Stop ids a row can carry to the device; the scheduler looks after any further ones."""

SLOT, LENGTH, COUNT, BUDGET, SEED, TOP_K, STOP = range(7)
META = STOP + STOPS


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Bounds of an engine.

    slots: sequences whose cache is kept; context: tokens of prompt plus completion; rows: ascending
    buckets for the rows of a call; chunk: tokens of a prompt that one call takes; steps: tokens
    that one call may sample.
    """

    slots: int = 256
    context: int = 160
    rows: tuple[int, ...] = (8, 32, 64)
    chunk: int = 48
    steps: int = 8


@dataclasses.dataclass
class Batch:
    """The arguments of one call, filled row by row; rows never filled are idle.

    meta: i32 [R, META], real: f32 [R, 2] (temperature, top_p), tokens: i32 [R, K].
    """

    meta: np.ndarray
    real: np.ndarray
    tokens: np.ndarray

    @classmethod
    def empty(cls, sizes: Sizes, rows: int, chunk: int) -> Batch:
        """Return a batch of idle rows for the smallest buckets that hold `rows` and `chunk`."""
        r = next(r for r in sizes.rows if r >= rows)
        meta = np.zeros((r, META), np.int32)
        meta[:, SLOT] = sizes.slots  # the scratch slot
        meta[:, STOP:] = -1
        k = 1 if chunk == 1 else sizes.chunk
        return cls(meta, np.ones((r, 2), np.float32), np.zeros((r, k), np.int32))

    def fill(
        self, row: int, slot: int, length: int, tokens: np.ndarray, budget: int, sampling: Sampling
    ) -> None:
        """Set a row: append `tokens` i32 [<= K] to `slot`, which holds `length`, then sample."""
        count = len(tokens)
        self.tokens[row, :count] = tokens
        self.meta[row] = (slot, length, count, budget, *sampling.meta)
        self.real[row] = sampling.real


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a request samples, in the form the device takes.

    meta: seed (32 bits), top_k (0 = all), STOPS stop ids (-1 = none); real: temperature, top_p.
    """

    meta: tuple[int, ...]
    real: tuple[float, float]

    @classmethod
    def of(
        cls, seed: int, top_k: int, stops: list[int], temperature: float, top_p: float
    ) -> Sampling:
        """Pack the parameters; a 64-bit seed is folded into 32 bits."""
        folded = (seed ^ (seed >> 32)) & 0xFFFFFFFF
        padded = (stops + [-1] * STOPS)[:STOPS]
        return cls((folded - (folded >> 31 << 32), top_k, *padded), (temperature, top_p))
