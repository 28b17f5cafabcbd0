"""Which sequence lies in which cache slot, and which idle slot a new prompt can go on from.

A prompt that begins with everything an idle slot holds continues there: the next turn of an
episode begins with the whole of the last one, so only its new tokens are computed. Contents are
found by hash: one pass over the prompt gives the hash of each of its prefixes, and the longest one
in the index wins once its tokens compare equal.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np


class SlotPool:
    """Owner of the slots 0..slots-1: each is in use, idle with content, or free."""

    def __init__(self, slots: int, context: int) -> None:
        self._free = list(range(slots))[::-1]
        self._idle: OrderedDict[int, int] = OrderedDict()  # slot -> hash; least recent first
        self._index: dict[int, list[int]] = {}  # hash -> idle slots that hold that content
        self._content: dict[int, np.ndarray] = {}
        rng = np.random.default_rng(0)
        self._factors = rng.integers(1, 2**63, context, np.uint64) * np.uint64(2) + np.uint64(1)

    def __len__(self) -> int:
        """Return how many slots may be claimed."""
        return len(self._free) + len(self._idle)

    def claim(self, tokens: np.ndarray) -> tuple[int, int] | None:
        """Take a slot for the sequence `tokens` i32 [n]; None if all are in use.

        Returns the slot and how many of its tokens are the sequence's own first ones: at most
        n - 1, as the last token must be computed to go on from it.
        """
        if slot := self._continue(tokens):
            return slot
        if not self._free:
            self._evict()
        return (self._free.pop(), 0) if self._free else None

    def release(self, slot: int, tokens: np.ndarray | None) -> None:
        """Give a slot back. It holds exactly `tokens`; None if that must not be used again."""
        if tokens is None or not len(tokens):
            self._free.append(slot)
            return
        key = int(self._hashes(tokens)[-1])
        self._content[slot] = tokens
        self._idle[slot] = key
        self._index.setdefault(key, []).append(slot)

    def forget(self) -> None:
        """Drop the content of every idle slot."""
        self._free.extend(self._idle)
        self._idle.clear()
        self._index.clear()
        self._content.clear()

    def _hashes(self, tokens: np.ndarray) -> np.ndarray:
        """Hash of every prefix, u64 [n]: entry i covers tokens[: i + 1]."""
        return np.cumsum((tokens.astype(np.uint64) + np.uint64(1)) * self._factors[: len(tokens)])

    def _continue(self, tokens: np.ndarray) -> tuple[int, int] | None:
        if not self._index:
            return None
        hashes = self._hashes(tokens[:-1]).tolist()
        for length in range(len(hashes), 0, -1):
            slots = self._index.get(hashes[length - 1])
            if slots and np.array_equal(self._content[slots[-1]], tokens[:length]):
                slot = slots[-1]
                self._remove(slot)
                return slot, length
        return None

    def _evict(self) -> None:
        if self._idle:
            slot = next(iter(self._idle))
            self._remove(slot)
            self._free.append(slot)

    def _remove(self, slot: int) -> None:
        key = self._idle.pop(slot)
        del self._content[slot]
        self._index[key].remove(slot)
        if not self._index[key]:
            del self._index[key]
