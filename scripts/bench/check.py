"""What every line of the benchmark has to deliver: each group once, and the right contents."""

from __future__ import annotations

from typing import Any

import numpy as np


def base(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids (i4), mask (u1) and logprobs (f4) [length] of a trajectory before its stamp."""
    n = np.arange(length)
    return (n * 7 % 50000).astype("<i4"), np.ones(length, "u1"), (-(n % 64) / 8).astype("<f4")


class Groups:
    """Counts the groups that arrived."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._seen = np.zeros(job["groups"], bool)
        self._left = job["groups"]
        self._size = 8

    def add(self, groups: np.ndarray, slots: np.ndarray) -> None:
        """Note a batch's rows, given the group and slot of each; a group's rows are adjacent."""
        groups, slots = groups.reshape(-1, self._size), slots.reshape(-1, self._size)
        names = groups[:, 0].copy()
        if (groups != names[:, None]).any() or (np.sort(slots, 1) != np.arange(self._size)).any():
            raise SystemExit("a batch holds a group that is not whole")
        if self._seen[names].any() or len(np.unique(names)) != len(names):
            raise SystemExit("a group came twice")
        self._seen[names] = True
        self._left -= len(names)

    def complete(self) -> bool:
        """Return whether all groups came."""
        return self._left == 0

    def finish(self) -> None:
        """Raise unless all groups came."""
        if self._left:
            raise SystemExit(f"{self._left} groups did not come")


def contents(length: int, batch: tuple[np.ndarray, np.ndarray, np.ndarray] | None) -> None:
    """Raise unless ids, mask and logprobs [rows, length] are those of the stamped rows."""
    if batch is None:
        raise SystemExit("no batch")
    ids, mask, logprobs = base(length)
    same = (batch[0][:, 2:] == ids[2:]).all() and (batch[1] == mask).all()
    if not same or not (batch[2] == logprobs).all():
        raise SystemExit("a batch's contents are not what was sent")
