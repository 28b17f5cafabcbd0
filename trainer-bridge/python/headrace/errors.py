"""What can go wrong between a trainer and its bridge, as exceptions that callers branch on.

Every exception here derives from `FeedError`, so one ``except`` catches them all.
"""

from __future__ import annotations


class FeedError(Exception):
    """The bridge refused a request, or the feed cannot go on."""


class ProtocolError(FeedError):
    """The peer sent something the protocol does not allow (bad frame, wrong version, bad shape)."""


class Disconnected(FeedError):
    """The bridge is gone: refused, closed the connection, or stopped in the middle of a frame."""


class SlotsHeld(FeedError):
    """Arrays of the caller still refer to every slot of the ring, so no batch can arrive."""


class RunEnded(FeedError):
    """There is no next batch.

    `Feed.next` raises it; iteration over the feed ends instead. `reason` is the bridge's word for
    it ("complete", "no_producers", "drained", ...: see `headrace.stalls.EndReason`) or
    "interrupted" after `Feed.interrupt`; `text` a sentence, if there is more to say.
    """

    def __init__(self, reason: str, steps: int | None = None, text: str = "") -> None:
        super().__init__(f"run ended: {reason}" + (f": {text}" if text else ""))
        self.reason = reason
        self.steps = steps
        self.text = text
