"""What a trainer did when: a bounded recorder of spans, and how its clock relates to the bridge's.

A span is a name, a lane and two times of the monotonic clock. Lane 0 is the time of the training
loop, cut into spans that follow one another: one that begins inside another interrupts it, so the
sums of a lane are seconds of a day. Lane 1 has what XLA compiled, which lies inside of them.

Nothing here waits, starts a thread or raises: what finds no room is counted and gone. The feed
sends what was recorded about once a second, when it is called anyway.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

ROOM = 4096
"""Spans kept between two frames."""
MOST_ARGS = 3
"""Numbers that a span keeps of those it is given."""
COMPILE_LANE = 1

_NAME_BYTES, _MOST_NAMES, _MOST_LANE = 100, 500, 63  # the bridge refuses some more
_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"

_Row = tuple[str, int, int, int, dict[str, float]]  # name, lane, start and end in ns, args


class _Open:
    """A span of lane 0 that has begun: it may be interrupted and go on."""

    def __init__(self, name: str, start: int, args: dict[str, Any]) -> None:
        self.name, self.start, self.args = name, start, args


class Recorder:
    """Spans until they are sent. Any thread may `record`; `span` is the loop's.

    `room` bounds the spans that are kept; 0 keeps none, and compilations are still counted.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.room = room
        self.dropped = 0
        """Spans that there was no room for, since the start."""
        self.compiles, self.compile_s = 0, 0.0
        """Compilations since the start and their seconds; 0 unless `watch_compiles` was called."""
        self._lock = threading.Lock()
        self._rows: list[_Row] = []
        self._open: list[_Open] = []
        self._unwatch: Callable[[], None] | None = None

    @contextmanager
    def span(
        self, name: str, *, since_ns: int | None = None, **args: Any
    ) -> Iterator[dict[str, Any]]:
        """Record the body of a `with` in lane 0; what it interrupts goes on behind it.

        `since_ns`, a time of `time.monotonic_ns`, moves its start back. Yields the arguments,
        numbers that may be added to until the end.
        """
        now = time.monotonic_ns()
        if self._open:
            self._piece(self._open[-1], now)
        span = _Open(name, now if since_ns is None else min(since_ns, now), args)
        self._open.append(span)
        try:
            yield span.args
        finally:
            now = time.monotonic_ns()
            while self._open and self._open.pop() is not span:
                pass  # left open by a generator that nobody ended
            self._piece(span, now)
            if self._open:
                self._open[-1].start = now

    def cut(self, after_s: float) -> None:
        """Record what has passed of the open span, if that is `after_s` seconds or more."""
        now = time.monotonic_ns()
        if self._open and now - self._open[-1].start >= after_s * 1e9:
            self._piece(self._open[-1], now)
            self._open[-1].start = now

    def _piece(self, span: _Open, end: int) -> None:
        if end > span.start:
            self.record(span.name, 0, span.start, end, span.args)

    def record(
        self,
        name: str,
        lane: int,
        start_ns: int,
        end_ns: int,
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a span of two times of `time.monotonic_ns`."""
        lane = min(max(lane, 0), _MOST_LANE)
        row = (name, lane, start_ns, max(end_ns, start_ns), dict(args or {}))
        with self._lock:
            if len(self._rows) < self.room:
                self._rows.append(row)
            elif self.room:
                self.dropped += 1

    def take(self, most: int = ROOM) -> dict[str, Any] | None:
        """Return the body of a SPANS frame with what was recorded, None if nothing was.

        Times are Unix nanoseconds of this process's clock as it goes now. More than `most` spans
        are counted as dropped.
        """
        with self._lock:
            rows, self._rows = self._rows, []
            self.dropped += max(0, len(rows) - most)
            dropped = self.dropped
        if not rows[:most]:
            return None
        at = time.time_ns()
        columns = _columns(rows[:most], at - time.monotonic_ns(), at)
        return {"at": at, "dropped": dropped, **columns}

    def lose(self, count: int) -> None:
        """Count spans that were taken and could not be sent."""
        with self._lock:
            self.dropped += count

    # --- compilations ------------------------------------------------------------------------

    def watch_compiles(self) -> None:
        """Have JAX tell of each compilation; twice is harmless, without JAX nothing happens.

        What comes out of the persistent cache counts as well: the step waited for it.
        """
        jax = sys.modules.get("jax")
        if self._unwatch is not None or jax is None:
            return
        me = weakref.ref(self)

        def listen(event: str, seconds: float, **_: Any) -> None:
            recorder = me()
            if recorder is not None and event == _COMPILE_EVENT:
                recorder._compiled(seconds)

        self._unwatch = lambda: None
        with suppress(Exception):  # a JAX of another age
            jax.monitoring.register_event_duration_secs_listener(listen)
            self._unwatch = lambda: jax.monitoring.unregister_event_duration_listener(listen)

    @property
    def watches_compiles(self) -> bool:
        """Whether compilations are counted."""
        return self._unwatch is not None

    def close(self) -> None:
        """Let go of JAX."""
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            with suppress(Exception):
                unwatch()

    def _compiled(self, seconds: float) -> None:
        end = time.monotonic_ns()
        with self._lock:
            self.compiles += 1
            self.compile_s += seconds
        self.record("compile", COMPILE_LANE, end - int(seconds * 1e9), end)


def _columns(rows: list[_Row], wall: int, at: int) -> dict[str, Any]:
    """Lay rows out as the frame has them; the first row's start is relative to `at`."""
    names: dict[str, int] = {}
    name, lane, start, duration, args = [], [], [], [], []
    before = at

    def place(text: Any) -> int:
        known = _short(text)
        if known not in names and len(names) >= _MOST_NAMES:
            known = "other"  # the last: what has more names than this is no name
        return names.setdefault(known, len(names))

    for i, (text, line, begun, ended, numbers) in enumerate(rows):
        name.append(place(text))
        lane.append(line)
        start.append(begun + wall - before)
        duration.append(ended - begun)
        before = begun + wall
        for key, value in list(numbers.items())[:MOST_ARGS]:
            if (number := _number(value)) is not None:
                args.append({"row": i, "key": place(key), "value": number})
    columns = {"name": name, "lane": lane, "start": start, "duration": duration, "args": args}
    return {"names": list(names), **columns}


def _short(text: Any) -> str:
    return str(text).encode(errors="replace")[:_NAME_BYTES].decode(errors="ignore") or "?"


def _number(value: Any) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        number = float(value)
        return number if math.isfinite(number) else None
    return None


class Clock:
    """How far the bridge's clock is ahead of ours, from the times of requests and answers.

    The bridge looked at its clock somewhere between; that it was the middle is off by half of the
    time on the way at most, so the fastest of the last exchanges counts (Cristian's algorithm).
    """

    def __init__(self, same_machine: bool) -> None:
        self._same_machine = same_machine
        self._seen: deque[tuple[int, int]] = deque(maxlen=64)  # uncertainty, offset

    def note(self, sent_ns: int, got_ns: int, clock: Any) -> None:
        """Take in an answer: our Unix times around it, and the bridge's "clock" in it, if any."""
        with suppress(KeyError, TypeError, ValueError):
            received, answered = int(clock["received"]), int(clock["sent"])
            way = (got_ns - sent_ns) - (answered - received)
            if way >= 0 and answered >= received:
                offset = ((received - sent_ns) + (answered - got_ns)) // 2
                self._seen.append((way // 2 + 1, offset))

    def best(self) -> tuple[int, int]:
        """Return what to add to our times to get the bridge's, and how wrong that may be, in ns.

        On a Unix socket the clock is the same one, unless the measurements rule that out.
        """
        if not self._seen:
            return 0, 0
        uncertainty, offset = min(self._seen)
        if self._same_machine and abs(offset) <= uncertainty:
            return 0, 0
        return offset, uncertainty
