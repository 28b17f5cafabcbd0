"""Checkpoints that are whole or not there, and of which a torn one is noticed.

A checkpoint is a folder ``step-000000040`` with every array in ``state.safetensors`` and everything
else in ``meta.json``, which also has the size and checksum of the former and a checksum of itself.
It is written under another name, synced, and renamed. `latest` checks the checksums and falls back
to the one before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save_file

_log = logging.getLogger("headrace.checkpoint")

_META, _STATE = "meta.json", "state.safetensors"
_NAME = re.compile(r"step-(\d{9,})")


class CheckpointError(Exception):
    """A checkpoint that is torn or foreign."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a trainer needs to go on after optimizer step `step`.

    `ledger_seq` is the ledger entry of that step's batch; `extra` any JSON object.
    """

    step: int
    ledger_seq: int
    arrays: Mapping[str, np.ndarray]
    extra: Mapping[str, Any] = field(default_factory=dict)


def save(root: str | os.PathLike[str], checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint durably, delete all but the newest `keep`; return its folder."""
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    final = root / f"step-{checkpoint.step:09d}"
    temporary = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=root))
    try:
        _write(temporary, checkpoint)
        if final.exists():  # torn, or of a life before: out of the way, not overwritten
            final.rename(Path(tempfile.mkdtemp(prefix=f".{final.name}-old-", dir=root)) / "old")
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(root)
    _prune(root, keep, final)
    return final


def latest(root: str | os.PathLike[str]) -> Checkpoint | None:
    """Return the newest whole checkpoint under `root`, None if there is none.

    Those that are torn are skipped with a warning.
    """
    for path in reversed(_all(Path(root))):
        try:
            return read(path)
        except CheckpointError as err:
            _log.warning("skip checkpoint %s: %s", path, err)
    return None


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and check one checkpoint folder. Raises `CheckpointError`."""
    path = Path(path)
    try:
        meta = json.loads((path / _META).read_text("utf-8"))
        if meta.pop("checksum") != _checksum(meta):
            raise CheckpointError("meta.json does not match its checksum")
        state = (path / _STATE).read_bytes()
        if hashlib.sha256(state).hexdigest() != meta["state"]["sha256"]:
            raise CheckpointError(
                f"{_STATE} has {len(state)} of {meta['state']['bytes']} bytes, or other ones"
            )
        return Checkpoint(meta["step"], meta["ledger_seq"], load(state), meta["extra"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        raise CheckpointError(f"{type(err).__name__}: {err}") from err


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    folder.chmod(0o755)
    state = folder / _STATE
    save_file({k: np.asarray(v, order="C") for k, v in checkpoint.arrays.items()}, state)
    with state.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
        os.fsync(f.fileno())
    meta = {
        "format": 1,
        "step": checkpoint.step,
        "ledger_seq": checkpoint.ledger_seq,
        "extra": dict(checkpoint.extra),
        "state": {"bytes": state.stat().st_size, "sha256": digest},
    }
    with (folder / _META).open("w", encoding="utf-8") as f:
        json.dump(meta | {"checksum": _checksum(meta)}, f, indent=1)
        f.flush()
        os.fsync(f.fileno())
    _sync(folder)


def _checksum(meta: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _all(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    found = [(int(m[1]), p) for p in root.iterdir() if (m := _NAME.fullmatch(p.name))]
    return [p for _, p in sorted(found)]


def _prune(root: Path, keep: int, newest: Path) -> None:
    """Delete all but the last `keep` up to `newest`; those ahead of it are torn, and go first."""
    for path in sorted(_all(root), key=lambda path: path.name <= newest.name)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
    for path in root.glob(".step-*"):  # left by a writer that died
        shutil.rmtree(path, ignore_errors=True)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
