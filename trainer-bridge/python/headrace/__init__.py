"""Headrace for Python: the trainer's end of the bridge, a reference trainer and engine."""

from headrace.batch import Batch
from headrace.dial import connect
from headrace.errors import Disconnected, FeedError, ProtocolError, RunEnded, SlotsHeld
from headrace.feed import Feed
from headrace.stalls import End, EndReason, StallCode, Stalled

__all__ = [
    "Batch",
    "Disconnected",
    "End",
    "EndReason",
    "Feed",
    "FeedError",
    "ProtocolError",
    "RunEnded",
    "SlotsHeld",
    "StallCode",
    "Stalled",
    "connect",
]
__version__ = "0.1.0"
