"""Sending a trainer's spans along its feed, so lightly that nobody switches it off."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from typing import Any

from headrace.errors import FeedError
from headrace.frames import Frame, Stream, Type
from headrace.spans import Clock, Recorder

_log = logging.getLogger("headrace.feed")

_EVERY_S = 1.0
_MOST_OPEN = 8


class Teller:
    """Sends what a recorder has, at most once a second, as SPANS frames of up to `most` spans.

    `ids` numbers the feed's requests. With `most` 0 the bridge takes no spans and gets none.
    """

    def __init__(
        self, recorder: Recorder, stream: Stream, ids: Iterator[int], most: int, clock: Clock
    ) -> None:
        self._recorder, self._stream, self._ids = recorder, stream, ids
        self._most, self._clock = most, clock
        self._open: dict[int, int] = {}  # frames without an answer, and when they were sent
        self._at = -math.inf
        self._compiles = (0, 0.0)  # told so far

    def tell(self, *, now: bool = False) -> None:
        """Send what was recorded, if it is time or `now`; what the bridge does not take is lost."""
        if not self._most or not (now or time.monotonic() - self._at >= _EVERY_S):
            return
        self._at = time.monotonic()
        body = self._recorder.take(self._most)
        if body is not None and not self._send(body):
            self._recorder.lose(len(body["name"]))

    def _send(self, body: dict[str, Any]) -> bool:
        offset, uncertainty = self._clock.best()
        id_ = next(self._ids)
        body = {"id": id_, "offset": offset, "uncertainty": uncertainty, **body}
        try:
            if not self._stream.writable():
                return False
            while len(self._open) >= _MOST_OPEN:
                del self._open[next(iter(self._open))]
            self._open[id_] = time.time_ns()
            self._stream.send(Type.SPANS, body)
        except (FeedError, ValueError, OSError) as err:  # whoever needs the bridge will notice
            _log.debug("send spans: %s", err)
            return False
        return True

    def takes(self, frame: Frame) -> bool:
        """Return whether a frame answers one of ours: the bridge's clock, or why it refused."""
        id_ = frame.body.get("id")
        sent = self._open.pop(id_, None) if isinstance(id_, int) else None
        if sent is None:
            return False
        if frame.type is Type.OK:
            self._clock.note(sent, time.time_ns(), frame.body.get("clock"))
        else:
            _log.debug("bridge refused spans: %s", frame.body.get("message"))
        return True

    def compile_metrics(self) -> dict[str, float]:
        """Return "compiles" and "compile_seconds" since last asked; nothing without a watch."""
        if not self._recorder.watches_compiles:
            return {}
        count, seconds = self._compiles
        self._compiles = (self._recorder.compiles, self._recorder.compile_s)
        return {
            "compiles": float(self._compiles[0] - count),
            "compile_seconds": self._compiles[1] - seconds,
        }
