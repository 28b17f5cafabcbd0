from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import headrace
from headrace import trackers
from headrace.batch import Batch
from headrace.trackers import tracking
from headrace.trackers.base import Experiment
from headrace.trackers.names import NAMES
from tests import trackerrig
from tests.fakebridge import FakeBatch, FakeBridge
from tests.synthetic import episodes, packed, prompt_completion, source


class Notebook:
    """A tracker in memory."""

    def __init__(self, last_step: int = 0) -> None:
        self.last_step = last_step
        self.steps: dict[int, Mapping[str, float]] = {}
        self.closed = False

    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        assert step not in self.steps
        self.steps[step] = metrics

    def close(self) -> None:
        self.closed = True


class Broken(Notebook):
    def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
        if step < 3:
            raise ConnectionError("no network")
        super().log(step, metrics, version)


def tensorboard(folder: Path, run: str = "lake") -> Mapping[int, Mapping[str, float]]:
    out: dict[int, dict[str, float]] = {}
    for path in (folder / "tensorboard").glob(f"{run}/events*"):
        for event in EventFileLoader(str(path)).Load():
            for v in event.summary.value:
                values = out.setdefault(event.step, {})
                assert v.tag not in values, f"{v.tag} is logged twice at step {event.step}"
                values[v.tag] = v.tensor.float_val[0] if v.HasField("tensor") else v.simple_value
    return out


def test_tensorboard_has_every_step_once_over_a_restart(tmp_path: Path) -> None:
    trackerrig.check(tmp_path, "tensorboard", tensorboard)


def test_every_metric_has_one_place_for_each_of_its_names() -> None:
    names = [n for group in NAMES.values() for n in group]
    assert len(names) == len(set(names))
    assert trackers.rename({"loss": 1, "mine": 2}) == {"loss": 1, "actor/pg_loss": 1, "mine": 2}


def facts_of(layout: str, arrays: Mapping[str, np.ndarray], tmp_path: Path) -> dict[str, float]:
    fake = FakeBatch(
        dict(arrays), layout, {"rows": len(arrays["advantages"]) - 1, "reward_mean": 1}
    )
    out: list[dict[str, float]] = []
    with FakeBridge(tmp_path, lambda n: fake if n == 1 else None) as bridge:
        with headrace.connect(bridge.address) as feed:
            for batch in feed:
                out.append(trackers.batch_facts(batch))
                batch.release()
    return out[0]


@pytest.mark.parametrize("layout", ["padded", "packed", "prompt_completion"])
def test_lengths_are_the_same_in_every_layout(tmp_path: Path, layout: str) -> None:
    plain = episodes(3)
    form = {"padded": dict, "packed": packed, "prompt_completion": prompt_completion}[layout]
    got = facts_of(layout, form(plain), tmp_path)
    sampled, total = plain["loss_mask"].sum(1), (plain["tokens"] > 0).sum(1)
    assert got["completion_mean"] == pytest.approx(sampled.mean())
    assert got["completion_max"] == sampled.max()
    assert got["prompt_mean"] == pytest.approx((total - sampled).mean())
    assert got["prompt_min"] == (total - sampled).min()
    assert "advantage_max" in got


def test_a_layout_without_arrays_that_we_know_is_logged_all_the_same(tmp_path: Path) -> None:
    fake = FakeBatch({"mine": np.zeros(3, np.float32)}, "own", {"rows": 3, "reward_mean": 1})
    note = Notebook()
    with FakeBridge(tmp_path, lambda n: fake if n == 1 else None) as bridge:
        with headrace.connect(bridge.address) as feed:
            attach_to(feed, note)
            for batch in feed:
                feed.commit(batch.step, {"loss": 1.0})
    assert note.steps[1]["loss"] == 1


def attach_to(feed: Any, *notes: Any) -> trackers.Tracking:
    out = trackers.Tracking([(type(n).__name__, n) for n in notes])
    tracking._listen(feed, out)
    return out


def test_a_broken_tracker_is_said_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken, note = Broken(), Notebook()
    with FakeBridge(tmp_path, source(4)) as bridge:
        with headrace.connect(bridge.address) as feed:
            attach_to(feed, broken, note)
            for batch in feed:
                feed.commit(batch.step, {"loss": 1.0})
    assert sorted(note.steps) == [1, 2, 3, 4]
    assert sorted(broken.steps) == [3, 4]
    assert broken.closed
    assert note.closed
    assert sum("no network" in r.message for r in caplog.records if r.levelname == "WARNING") == 1


def test_a_tracker_that_hangs_costs_its_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "_WAITING", 4)
    go = threading.Event()

    class Hung(Notebook):
        def log(self, step: int, metrics: Mapping[str, float], version: int) -> None:
            go.wait()

    hung = trackers.Tracking([("hung", Hung())])
    begun = time.monotonic()
    for step in range(1, 20):
        hung.log(step, {"loss": 1.0}, step)
    hung.close(timeout_s=0.1)
    assert time.monotonic() - begun < 5
    assert hung.dropped >= 14
    go.set()


def test_steps_that_a_tracker_has_are_not_logged_again() -> None:
    note = Notebook(last_step=3)
    out = trackers.Tracking([("note", note)])
    for step in range(1, 6):
        out.log(step, {"loss": 1.0, "text": "no number", "inf": float("inf")}, step)
    out.close()
    assert sorted(note.steps) == [4, 5]
    assert set(note.steps[4]) == {
        "loss",
        "actor/pg_loss",
        "num_tokens",
        "training/global_step",
        "headrace/policy_version",
    }


def test_what_cannot_be_opened_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment("p", "lake", tmp_path)
    with pytest.raises(trackers.TrackerError, match="no tracker 'excel': wandb, tensorboard"):
        trackers.open_tracker("excel", experiment)
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "headrace.trackers.to_wandb", raising=False)
    with pytest.raises(trackers.TrackerError, match="pip install 'headrace\\[trackers\\]'"):
        trackers.open_tracker("wandb", experiment)
    (tmp_path / "tensorboard").write_text("a file where a folder should be")
    with pytest.raises(trackers.TrackerError, match="open tracker tensorboard"):
        trackers.open_tracker("tensorboard", experiment)


def test_the_environment_may_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TRACKERS", "wandb, tensorboard,")
    assert trackers.chosen([]) == ["wandb", "tensorboard"]
    assert trackers.chosen(("mlflow",)) == ["mlflow"]


def test_a_batch_is_not_held(tmp_path: Path) -> None:
    held: list[Batch] = []
    with FakeBridge(tmp_path, source(6), slots=1) as bridge:
        with headrace.connect(bridge.address) as feed:
            attach_to(feed, Notebook())
            for batch in feed:
                held.append(batch)
                feed.commit(batch.step)
    assert len(held) == 6


def test_the_reference_trainer_logs_what_its_recipe_says(tmp_path: Path) -> None:
    from tests.test_trainer import train

    settings = {"trackers": ["tensorboard"], "checkpoint_every": 2}
    train(tmp_path, 3, settings)
    train(tmp_path, 5, settings)  # goes on from the checkpoint of step 3
    got = tensorboard(tmp_path / "trackers", "*")
    assert sorted(got) == [1, 2, 3, 4, 5]
    assert {"reward", "actor/entropy", "grad_norm", "timing_s/step", "learning_rate"} <= set(got[5])
    with pytest.raises(ValueError, match="no tracker 'excel'"):
        train(tmp_path / "other", 1, {"trackers": ["excel"]})


def test_a_finished_run_can_be_logged_afterwards(tmp_path: Path) -> None:
    columns = {
        "step": [1, 2, 3],
        "at": [1.0, 2.0, 3.0],
        "reward": [0.1, None, 0.3],
        "staleness_max": [0, 1, 1],
        "tokens": [10, 20, 30],
        "train_seconds": [1, 1, 1],
        "wait_seconds": [0, 1, 2],
        "committed": [True, True, False],
        "metrics": {"loss": [0.5, 0.4, None], "entropy": [1, 2, None]},
    }
    for _ in range(2):  # the second time there is nothing new
        subprocess.run(
            [sys.executable, "-m", "headrace.trackers", "tensorboard", "--run", "lake"],
            input=json.dumps({"columns": columns}),
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)},
            text=True,
            check=True,
        )
    got = tensorboard(tmp_path / "trackers")
    assert sorted(got) == [1, 2]
    assert got[1]["reward"] == pytest.approx(0.1)
    assert "reward" not in got[2]
    assert (got[2]["num_tokens"], got[2]["step_time"], got[2]["actor/entropy"]) == (30, 2, 2)


def test_the_documentation_lists_every_name() -> None:
    text = (Path(__file__).parents[3] / "docs/metrics.md").read_text()
    for ours, names in NAMES.items():
        row = next(r for r in text.splitlines() if r.startswith(f"| `{ours}` |"))
        assert all(f"`{n}`" in row for n in names), ours
