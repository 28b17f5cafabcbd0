"""TensorBoard: event files below the experiment's folder, by TensorBoard's own writer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from headrace.trackers.base import Experiment


class TensorBoard:
    """Scalars by step; `tensorboard --logdir` the folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.last_step = _last_step(folder)
        self._writer = EventFileWriter(str(folder))

    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        """Write and flush the scalars of a step."""
        values = [Summary.Value(tag=k, simple_value=v) for k, v in sorted(metrics.items())]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def _last_step(folder: Path) -> int:
    """Read the last step of the newest event file that has one."""
    for path in sorted(folder.glob("events.out.tfevents.*"), key=lambda p: p.name, reverse=True):
        steps = [e.step for e in EventFileLoader(str(path)).Load() if e.HasField("summary")]
        if steps:
            return max(steps)
    return 0


def open_(experiment: Experiment) -> TensorBoard:
    """Open the event files of a run."""
    return TensorBoard(experiment.folder / "tensorboard" / experiment.run)
