"""Sending a trainer's spans along its feed, so lightly that nobody switches it off."""

from __future__ import annotations

import itertools
import logging
import math
import time
from typing import Any

from headrace.errors import FeedError
from headrace.frames import Frame, Stream, Type
from headrace.spans import Clock, Recorder

_log = logging.getLogger("headrace.feed")

_EVERY_S = 1.0
_MOST_OPEN = 8


class Teller:
    """Sends what a recorder has, at most once a second, as SPANS frames of up to `most` spans.

    Their ids are below 0, the feed's other requests' above: an answer is known for ours even when
    nobody remembers what to. With `most` 0 the bridge takes no spans and gets none.
    """

    def __init__(self, recorder: Recorder, stream: Stream, most: int, clock: Clock) -> None:
        self._recorder, self._stream = recorder, stream
        self._most, self._clock = most, clock
        self._ids = itertools.count(-1, -1)
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

    @property
    def awaits(self) -> bool:
        """Whether answers may be on their way."""
        return bool(self._open)

    def takes(self, frame: Frame) -> bool:
        """Return whether a frame answers one of ours: the bridge's clock, or why it refused."""
        id_ = frame.body.get("id")
        if not isinstance(id_, int) or id_ >= 0:
            return False
        sent = self._open.pop(id_, None)
        if frame.type is Type.OK and sent is not None:
            self._clock.note(sent, time.time_ns(), frame.body.get("clock"))
        elif frame.type is not Type.OK:
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
