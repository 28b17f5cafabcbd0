"""From a batch of any layout to micro-batches of a few shapes.

`Rows` is what every layout becomes: whole token rows, with the loss's inputs at each place. A
`Micro` holds some of them: cut to a bucket's length, with the loss's inputs only at the places of
sampled tokens, so that the output head runs there and nowhere else. All arrays are copies, so a
batch can be released at once.

Shapes: R rows, T tokens a row, M sampled places a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.losses import Aggregation, token_weights

SMALLEST_PLACES = 32


@dataclass(frozen=True)
class Rows:
    """Rows to learn from. All arrays [R, T]; f32, but for tokens, segments, positions (i32)."""

    tokens: np.ndarray
    mask: np.ndarray
    """1 where the model sampled the token."""
    logprobs: np.ndarray
    """The sampler's, at sampled tokens."""
    advantages: np.ndarray
    segments: np.ndarray | None = None
    positions: np.ndarray | None = None

    @property
    def sampled(self) -> int:
        """Number of sampled tokens."""
        return int(self.mask.sum())


class Micro(NamedTuple):
    """One forward and backward pass. `places` are those of sampled tokens, 0 where none."""

    tokens: np.ndarray
    """i32 [R, T]"""
    places: np.ndarray
    """i32 [R, M]"""
    mask: np.ndarray
    """f32 [R, M]; 0 where `places` is padding."""
    weights: np.ndarray
    """f32 [R, M]: the token's weight over the batch's denominator."""
    logprobs: np.ndarray
    """f32 [R, M]"""
    advantages: np.ndarray
    """f32 [R, M]"""
    segments: np.ndarray | None
    """i32 [R, T], of packed rows."""
    positions: np.ndarray | None
    """i32 [R, T], of packed rows."""


def from_batch(layout: str, arrays: Mapping[str, np.ndarray]) -> Rows:
    """Return the rows of a batch. Raises `ValueError` for a layout without a reader."""
    if layout == "padded":
        return _from_padded(arrays)
    if layout == "packed":
        return _from_packed(arrays)
    if layout == "prompt_completion":
        return _from_prompt_completion(arrays)
    raise ValueError(f"unknown layout {layout!r}: padded, packed or prompt_completion")


def _from_padded(a: Mapping[str, np.ndarray]) -> Rows:
    mask = a["loss_mask"].astype(np.float32)
    return Rows(a["tokens"].copy(), mask, a["logprobs"].copy(), a["advantages"][:, None] * mask)


def _from_packed(a: Mapping[str, np.ndarray]) -> Rows:
    return Rows(
        a["tokens"].copy(),
        a["loss_mask"].astype(np.float32),
        a["logprobs"].copy(),
        a["advantages"].copy(),
        a["segment_ids"].copy(),
        a["positions"].copy(),
    )


def _from_prompt_completion(a: Mapping[str, np.ndarray]) -> Rows:
    """Join prompt and completion; positions count from the first token that is not padding."""
    prompt = a["prompt_mask"].astype(np.int32)
    width = prompt.shape[1]
    pad = np.zeros(prompt.shape, np.float32)
    mask = np.concatenate([pad, a["completion_mask"].astype(np.float32)], 1)
    last = _lengths(mask)[:, None]
    places = np.broadcast_to(np.arange(mask.shape[1], dtype=np.int32), mask.shape)
    first = width - prompt.sum(1, keepdims=True, dtype=np.int32)
    return Rows(
        np.concatenate([a["prompt_ids"], a["completion_ids"]], 1),
        mask,
        np.concatenate([pad, a["old_logprobs"]], 1),
        a["advantages"][:, None] * mask,
        ((places >= first) & (places < last)).astype(np.int32),
        np.maximum(places - first, 0).astype(np.int32),
    )


def micro_batches(
    rows: Rows, size: int, buckets: tuple[int, ...], aggregation: Aggregation
) -> Iterator[Micro]:
    """Cut rows into micro-batches of `size` rows each, ordered by length.

    Each is as long as the smallest of `buckets` (ascending) that holds its rows. A row ends at its
    last sampled token: what follows can change nothing. Rows without one are left out. Shapes
    depend on the rows of a micro-batch alone, never on what came before, so that a resumed run
    repeats its numbers.
    """
    weights, denominator = token_weights(rows.mask, aggregation, rows.segments)
    weights = weights / np.float32(denominator)
    lengths, size = _lengths(rows.mask), min(size, len(rows.tokens))
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    for start in range(0, len(order), size):
        yield _cut(rows, weights, order[start : start + size], size, lengths, buckets)


def _cut(
    rows: Rows,
    weights: np.ndarray,
    chosen: np.ndarray,
    size: int,
    lengths: np.ndarray,
    buckets: tuple[int, ...],
) -> Micro:
    longest = int(lengths[chosen].max())
    length = next((b for b in buckets if b >= longest), rows.tokens.shape[1])
    mask = rows.mask[chosen, :longest]
    most = int(mask.sum(1).max())
    count = min(next(p for p in _powers(SMALLEST_PLACES) if p >= most), length)
    places = np.argsort(mask <= 0, axis=1, kind="stable")[:, :count].astype(np.int32)
    there = np.take_along_axis(mask, places, 1)

    def at(x: np.ndarray) -> np.ndarray:
        return _pad(np.take_along_axis(x[chosen, :longest], places, 1) * there, size, count)

    def whole(x: np.ndarray | None) -> np.ndarray | None:
        return None if x is None else _pad(x[chosen, :longest], size, length)

    return Micro(
        tokens=_pad(rows.tokens[chosen, :longest], size, length),
        places=_pad(np.where(there > 0, places, 0).astype(np.int32), size, count),
        mask=_pad(there, size, count),
        weights=at(weights),
        logprobs=at(rows.logprobs),
        advantages=at(rows.advantages),
        segments=whole(rows.segments),
        positions=whole(rows.positions),
    )


def _pad(x: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Return x with zeros added below and to the right, as an array of its own."""
    out = np.zeros((rows, width), x.dtype)
    out[: x.shape[0], : x.shape[1]] = x
    return out


def _lengths(mask: np.ndarray) -> np.ndarray:
    """Return one more than the place of each row's last sampled token, 0 if it has none."""
    return (np.arange(1, mask.shape[1] + 1) * (mask > 0)).max(1, initial=0)


def _powers(first: int) -> list[int]:
    return [first << i for i in range(24)]
