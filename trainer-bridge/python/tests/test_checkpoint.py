"""Checkpoints: exact, atomic, pruned, and torn ones skipped."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from headrace import checkpoint
from headrace.checkpoint import Checkpoint, CheckpointError


def make(step: int) -> Checkpoint:
    rng = np.random.default_rng(step)
    arrays = {
        ".params['w']": rng.normal(size=(3, 4)).astype(np.float32),
        ".optimizer[1][0].count": np.asarray(step, np.int32),
        "transposed": rng.normal(size=(3, 4)).astype(np.float32).T,
    }
    return Checkpoint(step, 100 + step, arrays, {"seed": 3})


def test_comes_back_bit_for_bit(tmp_path: Path) -> None:
    want = make(7)
    path = checkpoint.save(tmp_path / "new" / "folder", want, keep=2)
    got = checkpoint.latest(path.parent)
    assert got is not None
    assert (got.step, got.ledger_seq, got.extra) == (7, 107, {"seed": 3})
    assert set(got.arrays) == set(want.arrays)
    for name, x in want.arrays.items():
        assert got.arrays[name].dtype == x.dtype
        assert got.arrays[name].shape == x.shape
        assert got.arrays[name].tobytes() == x.tobytes()


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".step-000000001-died").mkdir()
    for step in (0, 9, 10, 11):
        checkpoint.save(tmp_path, make(step), keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000010", "step-000000011"]


def test_the_one_just_written_is_kept_although_torn_ones_are_ahead(tmp_path: Path) -> None:
    for step in (2, 3):
        path = checkpoint.save(tmp_path, make(step), keep=3)
        cut(path / "state.safetensors")
    checkpoint.save(tmp_path, make(1), keep=1)
    found = checkpoint.latest(tmp_path)
    assert found is not None
    assert found.step == 1


def test_nothing_there_is_none(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path) is None
    assert checkpoint.latest(tmp_path / "missing") is None


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["meta.json", "state.safetensors"])
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_torn_one_is_skipped_for_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage
) -> None:
    checkpoint.save(tmp_path, make(1), keep=3)
    damage(checkpoint.save(tmp_path, make(2), keep=3) / name)
    with caplog.at_level(logging.WARNING):
        got = checkpoint.latest(tmp_path)
    assert got is not None
    assert got.step == 1
    assert "skip checkpoint" in caplog.text
    with pytest.raises(CheckpointError):
        checkpoint.read(tmp_path / "step-000000002")


def test_torn_one_is_replaced(tmp_path: Path) -> None:
    cut(checkpoint.save(tmp_path, make(2), keep=3) / "state.safetensors")
    checkpoint.save(tmp_path, make(2), keep=3)
    got = checkpoint.latest(tmp_path)
    assert got is not None
    assert got.step == 2
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000002"]


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="no space left"):
        checkpoint.save(tmp_path, make(1), keep=1)
    assert list(tmp_path.iterdir()) == []
