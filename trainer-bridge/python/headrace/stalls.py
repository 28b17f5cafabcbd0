"""Why a batch does not come, and why none comes any more: words a program can branch on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

StallCode = Literal[
    "no_producers",
    "no_engine",
    "slots_leased",
    "all_zero_variance",
    "all_stale",
    "all_filtered",
    "waiting_trainer",
    "bridge_gone",
    "grouper_gone",
    "bus_unreachable",
    "rollouts_full",
    "disk_full",
    "inspector_behind",
    "slots_held",
    "no_batch",
]
"""Why a run stands still. A code that a newer bridge invents comes as "no_batch"."""

EndReason = Literal[
    "complete",
    "dataset_ended",
    "empty_dataset",
    "all_stale",
    "all_filtered",
    "no_producers",
    "engine_gone",
    "disk_full",
    "cancelled",
    "drained",
    "interrupted",
    "other",
]
"""Why there is no further batch. "drained": the bridge stops, and the run goes on later.
"interrupted": `Feed.interrupt` was called. "other": a reason of a newer bridge, in `End.text`."""

ACHIEVED: tuple[EndReason, ...] = ("complete", "dataset_ended")
"""The ends of a run that did what it was for."""


@dataclass(frozen=True)
class Stalled:
    """What the run waits for, and whose turn it is."""

    stage: str
    """producer, engine, grouper, bridge, trainer or bus."""
    code: StallCode
    text: str
    """One sentence for people, with names and numbers."""
    since_s: float
    """Seconds for which nothing has moved, as far as who says it knows."""

    @classmethod
    def from_notice(cls, body: Mapping[str, Any]) -> Stalled | None:
        """Read the body of a stall NOTICE; None if it says that the run moves again."""
        code = str(body.get("code") or "")
        if not code:
            return None
        known = code if code in get_args(StallCode) else "no_batch"
        return cls(
            stage=str(body.get("stage") or ""),
            code=cast(StallCode, known),
            text=str(body.get("text") or code),
            since_s=float(body.get("since_s") or 0.0),
        )


@dataclass(frozen=True)
class End:
    """Why iteration ended."""

    reason: EndReason
    steps: int | None = None
    """Steps of the run so far, if the bridge said so."""
    text: str = ""
    """One sentence for people, where there is more to say than the reason."""

    @property
    def achieved(self) -> bool:
        """Whether the run did what it was for."""
        return self.reason in ACHIEVED

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> End:
        """Read the body of END."""
        reason, steps = str(body.get("reason") or "complete"), body.get("steps")
        text = str(body.get("text") or "")
        if reason not in get_args(EndReason):
            reason, text = "other", text or reason
        return cls(cast(EndReason, reason), None if steps is None else int(steps), text)
