"""Weights & Biases: one run of that name, resumed by every trainer of it.

WANDB_MODE=offline writes files below the experiment's folder, to be sent with `wandb sync`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb  # pyright: ignore[reportMissingImports]

from headrace.trackers.base import Experiment
from headrace.trackers.memory import Memory
from headrace.trackers.names import X_STEP, X_TOKENS, X_VERSION


class WandB:
    """A run of W&B: steps are the trainer's."""

    def __init__(self, run: Any, memory: Memory) -> None:
        self._run, self._memory = run, memory
        self.last_step = max(memory.last_step, _known(run))
        for axis in (X_STEP, X_VERSION, X_TOKENS):
            run.define_metric(axis)

    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        """Log a step."""
        self._run.log(dict(metrics), step=step)
        self._memory.logged(step)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


def _known(run: Any) -> int:
    """Ask a resumed run for its last step."""
    with contextlib.suppress(Exception):
        return int(run.summary.get(X_STEP) or 0)
    return 0


def open_(experiment: Experiment) -> WandB:
    """Begin or resume the run."""
    folder = Path(experiment.folder)
    folder.mkdir(parents=True, exist_ok=True)
    memory = Memory(folder / f"wandb-{experiment.run}.json")
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or experiment.project,
        name=experiment.run,
        id=memory.id,
        resume="allow",
        dir=str(folder),
        config=dict(experiment.config),
        settings=wandb.Settings(silent=True, console="off"),
    )
    return WandB(run, memory)
