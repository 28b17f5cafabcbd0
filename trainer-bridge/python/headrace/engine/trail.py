"""The device calls that an engine made lately, for whoever draws its time.

Calls are numbered from 1. A reader says which one it has seen last and gets those behind it, as
columns; what has left the ring meanwhile is counted. Times are Unix nanoseconds of this process.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from itertools import islice
from typing import Any

ROOM = 4096
"""Device calls that are remembered: some ten seconds of a busy small model."""

_Call = tuple[int, int, int, int, int]  # start and duration in ns, rows, tokens, prefill


class Trail:
    """A bounded memory of device calls; for one thread."""

    def __init__(self, room: int = ROOM) -> None:
        self.boot = secrets.token_hex(8)
        """Differs between processes, so that a reader sees that its place is gone."""
        self.count = 0
        self._calls: deque[_Call] = deque(maxlen=room)

    def add(self, start_ns: int, rows: int, tokens: int, prefill: bool) -> None:
        """Note a call that began at `start_ns`, by `time.monotonic_ns`, and ended now.

        `tokens` are those sampled, and those of prompts that were read.
        """
        self.count += 1
        took = time.monotonic_ns() - start_ns
        self._calls.append((start_ns, took, rows, tokens, int(prefill)))

    def since(self, after: int, boot: str) -> dict[str, Any]:
        """Return the calls behind number `after` of process `boot`; all, if that was another."""
        if boot != self.boot or not 0 <= after <= self.count:
            after = 0
        first = self.count - len(self._calls)  # the number before the oldest one
        calls = list(islice(self._calls, max(after - first, 0), None))
        start, took, rows, tokens, prefill = zip(*calls, strict=True) if calls else [()] * 5
        now = time.time_ns()
        wall = now - time.monotonic_ns()
        return {
            "boot": self.boot,
            "now": now,
            "next": self.count,
            "lost": max(first - after, 0),
            "start": [s + wall for s in start],
            "duration": list(took),
            "rows": list(rows),
            "tokens": list(tokens),
            "prefill": list(prefill),
        }
