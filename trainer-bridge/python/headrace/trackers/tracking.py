"""Trackers on a feed: each commit is logged with the facts of its batch, beside training."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import queue
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.batch import Batch
from headrace.feed import Feed
from headrace.trackers.base import Experiment, Tracker, open_tracker
from headrace.trackers.facts import batch_facts
from headrace.trackers.names import X_STEP, X_VERSION, rename

_log = logging.getLogger("headrace.trackers")

_WAITING = 1024
"""Steps that may wait to be logged; a tracker that hangs costs the ones after."""
_CLOSE_S = 15.0


def attach(
    feed: Feed,
    kinds: Iterable[str],
    *,
    project: str = "headrace",
    folder: str | os.PathLike[str] | None = None,
) -> Tracking:
    """Log every commit of a feed from now on; ends with the feed. Raises `TrackerError`.

    Files go to `folder`, by default "trackers" beside the run's checkpoints. Where a tracker keeps
    its numbers otherwise, and with which key, is its own environment's matter (WANDB_MODE,
    MLFLOW_TRACKING_URI, ...).
    """
    checkpoints = feed.config.paths.checkpoints
    where = Path(folder) if folder else Path(checkpoints or ".").absolute().parent / "trackers"
    experiment = Experiment(project, feed.config.run, where, {"trainer": feed.config.trainer})
    tracking = Tracking([(kind, open_tracker(kind, experiment)) for kind in kinds], where)
    if tracking.any:
        _listen(feed, tracking)
    return tracking


def chosen(kinds: Iterable[str]) -> list[str]:
    """Return `kinds`, or where there are none those that HEADRACE_TRACKERS names, with commas."""
    said = os.environ.get("HEADRACE_TRACKERS", "")
    return list(kinds) or [k.strip() for k in said.split(",") if k.strip()]


def _listen(feed: Feed, tracking: Tracking) -> None:
    """Have a feed tell of batches, commits and its end."""
    own_next, own_commit, own_close = feed.next, feed.commit, feed.close
    seen: dict[int, dict[str, float]] = {}

    @functools.wraps(own_next)
    def next_() -> Batch:
        batch = own_next()
        seen.clear()
        seen[batch.step] = _facts(batch)
        return batch

    @functools.wraps(own_commit)
    def commit(
        step: int,
        metrics: Mapping[str, float] | None = None,
        *,
        train_s: float = 0.0,
        wait_s: float | None = None,
        tokens: int = 0,
        wait: bool = False,
    ) -> None:
        own_commit(step, metrics, train_s=train_s, wait_s=wait_s, tokens=tokens, wait=wait)
        waited = feed.wait_s if wait_s is None else wait_s
        took = {"train_seconds": train_s, "wait_seconds": waited, "seconds": train_s + waited}
        if tokens and took["seconds"] > 0:
            took |= {"tokens": tokens, "tokens_per_second": tokens / took["seconds"]}
        tracking.log(step, seen.get(step, {}) | dict(metrics or {}) | took, version=step)

    @functools.wraps(own_close)
    def close(reason: str = "done") -> None:
        own_close(reason)
        tracking.close()

    vars(feed).update(next=next_, commit=commit, close=close)


def _facts(batch: Batch) -> dict[str, float]:
    try:
        return batch_facts(batch)
    except Exception:  # a layout of its own is no reason to end
        _log.warning("no facts of the batch of step %d", batch.step, exc_info=True)
        return {}


class Tracking:
    """Some trackers, fed by a thread: `log` neither waits nor raises."""

    def __init__(
        self,
        trackers: Iterable[tuple[str, Tracker]],
        folder: Path | None = None,
        waiting: int | None = None,
    ) -> None:
        """Keep totals in `folder`; let so many steps wait (default some, 0: any number)."""
        self._trackers = list(trackers)
        self._totals = _Totals(folder)
        self._queue: queue.Queue[tuple[int, dict[str, float], int] | None] = queue.Queue(
            _WAITING if waiting is None else waiting
        )
        self.dropped = 0
        """Steps that were not logged since too many were waiting."""
        self._failed: set[str] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="trackers", daemon=True)
        if self._trackers:
            self._thread.start()

    @property
    def any(self) -> bool:
        """Whether there is any tracker."""
        return bool(self._trackers)

    def log(self, step: int, metrics: Mapping[str, Any], version: int) -> None:
        """Have the metrics of a step logged, under their names in TRL and verl.

        Those that are no finite numbers are left out.
        """
        if not self._trackers or self._closed:
            return
        numbers = {k: float(v) for k, v in metrics.items() if _number(v)}
        numbers["tokens_total"] = self._totals.add(step, numbers.get("tokens", 0.0))
        out = rename(numbers) | {X_STEP: float(step), X_VERSION: float(version)}
        try:
            self._queue.put_nowait((step, out, version))
        except queue.Full:
            self.dropped += 1

    def close(self, timeout_s: float | None = _CLOSE_S) -> None:
        """Log what waits, for some seconds at most (None: for ever); twice is harmless."""
        if self._closed or not self._trackers:
            return
        self._closed = True
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        if self.dropped or self._thread.is_alive():
            _log.warning("trackers: %d steps were not logged", self.dropped + self._queue.qsize())

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            for kind, tracker in self._trackers:
                self._one(kind, tracker, *item)
        for kind, tracker in self._trackers:
            self._guard(kind, "close", tracker.close)

    def _one(
        self, kind: str, tracker: Tracker, step: int, metrics: dict[str, float], version: int
    ) -> None:
        if step <= tracker.last_step:
            return  # trained again after a restart: it has it
        if self._guard(kind, "log", lambda: tracker.log(step, metrics, version)):
            tracker.last_step = step

    def _guard(self, kind: str, what: str, do: Any) -> bool:
        try:
            do()
        except Exception as err:  # whatever a library raises
            level = logging.DEBUG if kind in self._failed else logging.WARNING
            self._failed.add(kind)
            _log.log(level, "tracker %s: %s: %s: %s", kind, what, type(err).__name__, err)
            return False
        self._failed.discard(kind)
        return True


def _number(value: Any) -> bool:
    try:
        return abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False


class _Totals:
    """Tokens trained on up to each step, also over restarts: kept in a small file."""

    def __init__(self, folder: Path | None) -> None:
        self._file = folder / "tokens.json" if folder else None
        self._at: dict[int, float] = {}
        if self._file and self._file.exists():
            try:
                known = json.loads(self._file.read_text())
                self._at = {int(k): float(v) for k, v in known.items()}
            except (ValueError, AttributeError, OSError):
                _log.warning("%s cannot be read: tokens count from 0", self._file)

    def add(self, step: int, tokens: float) -> float:
        """Return the total with a step's tokens."""
        before = max((s for s in self._at if s < step), default=None)
        total = (self._at[before] if before is not None else 0.0) + tokens
        self._at = {s: t for s, t in sorted(self._at.items())[-512:] if s < step} | {step: total}
        if self._file:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                part = self._file.with_suffix(".part")
                part.write_text(json.dumps(self._at))
                part.replace(self._file)
            except OSError as err:
                _log.debug("write %s: %s", self._file, err)
        return total
