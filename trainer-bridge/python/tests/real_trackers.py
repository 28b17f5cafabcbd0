"""Trackers with their real libraries: ``pytest tests/real_trackers.py``, by hand.

They weigh some 400 MB, too much for every run of the tests (TensorBoard's is there). Install them
with ``pip install -e '.[trackers]'``; nothing leaves the machine.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import trackerrig


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient  # pyright: ignore[reportMissingImports]

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def read(folder: Path) -> Mapping[int, Mapping[str, float]]:
        client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
        experiment = client.get_experiment_by_name("headrace")
        (run,) = client.search_runs([experiment.experiment_id])
        out: dict[int, dict[str, float]] = {}
        for name in run.data.metrics:
            for m in client.get_metric_history(run.info.run_id, name):
                values = out.setdefault(m.step, {})
                assert name not in values
                values[name] = m.value
        return out

    trackerrig.check(tmp_path, "mlflow", read)


def records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: blocks of 32 KiB, chunks with crc, length and type."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        if kind == 0:
            return
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last chunk
            yield parts
            parts = b""


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wandb.proto import wandb_internal_pb2 as pb  # pyright: ignore[reportMissingImports]

    monkeypatch.setenv("WANDB_MODE", "offline")

    def whole(path: Path) -> list[Any]:
        """What W&B wrote, once its other process is done with it."""
        deadline = time.monotonic() + 30
        while True:
            found = [pb.Record.FromString(data) for data in records(path.read_bytes())]
            if found and found[-1].WhichOneof("record_type") == "exit":
                return found
            assert time.monotonic() < deadline, "W&B does not end its file"
            time.sleep(0.1)

    def read(folder: Path) -> Mapping[int, Mapping[str, float]]:
        out: dict[int, dict[str, float]] = {}
        ids = set()
        for path in folder.glob("wandb/offline-run-*/*.wandb"):
            ids.add(path.name)
            for record in whole(path):
                if record.WhichOneof("record_type") != "history":
                    continue
                step = record.history.step.num
                assert step not in out
                items = record.history.item
                out[step] = {
                    (i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in items
                }
        assert len(ids) == 1, "the second trainer made a run of its own"
        return out

    trackerrig.check(tmp_path, "wandb", read)


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    import importlib

    import trackio.utils  # pyright: ignore[reportMissingImports]

    importlib.reload(trackio.utils)

    def read(folder: Path) -> Mapping[int, Mapping[str, float]]:
        from trackio.sqlite_storage import SQLiteStorage  # pyright: ignore[reportMissingImports]

        rows = SQLiteStorage.get_logs("headrace", "lake")
        assert len({r["step"] for r in rows}) == len(rows)
        return {r["step"]: r for r in rows}

    trackerrig.check(tmp_path, "trackio", read)
