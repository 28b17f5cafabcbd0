"""What a tracker is, and how one is opened by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

KINDS = ("wandb", "tensorboard", "mlflow", "trackio")
"""The trackers there are."""


class TrackerError(ValueError):
    """A tracker that was asked for cannot be opened; says what to do."""


@dataclass(frozen=True)
class Experiment:
    """What a tracker calls the run: `run` of `project`, its files below `folder`."""

    project: str
    run: str
    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)


class Tracker(Protocol):
    """Where numbers go. One thread calls it; any error is logged and forgotten by the caller."""

    last_step: int
    """The last step that it has of this run, from whichever process; 0: none."""

    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        """Record the metrics of a training step, the weights of which are policy `version`."""
        ...

    def close(self) -> None:
        """Write what is not written."""
        ...


def open_tracker(kind: str, experiment: Experiment) -> Tracker:
    """Open one of `KINDS`. Raises `TrackerError`, also where its package is not installed."""
    if kind not in KINDS:
        raise TrackerError(f"no tracker {kind!r}: {', '.join(KINDS)}")
    try:
        module = importlib.import_module(f"headrace.trackers.to_{kind}")
    except ImportError as err:
        raise TrackerError(
            f"tracker {kind} needs a package that is not there ({err}):"
            " pip install 'headrace[trackers]'"
        ) from err
    try:
        return module.open_(experiment)
    except Exception as err:  # whatever a library raises
        raise TrackerError(f"open tracker {kind}: {type(err).__name__}: {err}") from err
