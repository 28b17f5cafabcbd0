"""Trackio: W&B's interface over a local database; TRACKIO_DIR says where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trackio  # pyright: ignore[reportMissingImports]

from headrace.trackers.base import Experiment
from headrace.trackers.memory import Memory


class Trackio:
    """A run of Trackio."""

    def __init__(self, run: Any, memory: Memory) -> None:
        self._run, self._memory = run, memory
        self.last_step = memory.last_step

    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        """Log a step."""
        self._run.log(dict(metrics), step=step)
        self._memory.logged(step)

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()


def open_(experiment: Experiment) -> Trackio:
    """Begin or resume the run."""
    memory = Memory(Path(experiment.folder) / f"trackio-{experiment.run}.json")
    run = trackio.init(
        project=experiment.project,
        name=experiment.run,
        config=dict(experiment.config),
        resume="allow",
        embed=False,
    )
    return Trackio(run, memory)
