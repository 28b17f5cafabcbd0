"""JAX profiles of chosen steps: where they are, how many stay, how well their times are known."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.trainer.loop import Stop, run
from headrace.trainer.profile import CLOCK, STEP, STEPS_ENV, Profiler, parse_steps
from tests import synthetic
from tests.fakebridge import FakeBridge
from tests.test_spans import spans


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    (path,) = folder.rglob("*.trace.json.gz")
    with gzip.open(path) as f:
        return [e for e in json.load(f)["traceEvents"] if e.get("name") == name]


def test_profiled_steps_lie_where_the_spans_say(tmp_path: Path) -> None:
    """Within 5 ms by the clock annotations: what `headrace trace` relies on."""
    welcome = synthetic.welcome(tmp_path, {"profile": {"steps": "3..4", "keep": 1}})
    with FakeBridge(tmp_path, synthetic.source(5), welcome=welcome | {"spans": 4096}) as bridge:
        run(bridge.address, Stop())
    (folder,) = (tmp_path / "checkpoints" / "profiles").iterdir()
    info = json.loads((folder / "profile.json").read_text())
    assert (info["first"], info["final"]) == (3, 4)
    assert any(str(folder) in n["text"] for n in bridge.notices)
    clocks = [int(e["args"]["unix_ns"]) - e["ts"] * 1e3 for e in events(folder, CLOCK)]
    offset = max(clocks)
    assert len(clocks) == 2
    assert offset == pytest.approx(info["started_unix_ns"], abs=50e6)
    known = {x[4]["step"]: x for x in spans(bridge) if x[0] == "train step"}
    steps = events(folder, STEP)
    assert [int(e["args"]["step_num"]) for e in steps] == [3, 4]
    for e in steps:
        _, _, start, end, _ = known[int(e["args"]["step_num"])]
        assert e["ts"] * 1e3 + offset == pytest.approx(start, abs=5e6)
        assert (e["ts"] + e["dur"]) * 1e3 + offset == pytest.approx(end, abs=5e6)
    assert {"profile", "start", "wait for batch", "checkpoint"} <= {x[0] for x in spans(bridge)}


def test_profiles_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STEPS_ENV, "7")
    for i in range(4):
        (tmp_path / f"step-{i:09d}-{i}").mkdir()
    p = Profiler(tmp_path, "r", "1..2", keep=2)
    assert not p.begins(1)
    assert p.begins(7)
    p.start(7)
    with p.step(7):
        pass
    assert p.ends(7)
    folder = p.stop()
    assert folder is not None
    assert {x.name for x in tmp_path.iterdir()} == {folder.name, "step-000000003-3"}
    assert p.stop() is None


def test_a_profile_that_cannot_be_taken_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    p = Profiler(tmp_path / "file", "r", "1..3")
    with caplog.at_level(logging.WARNING):
        p.start(1)
    assert "profile of step 1" in caplog.text
    assert not p.begins(2)
    with p.step(2):
        pass
    assert p.stop() is None


@pytest.mark.parametrize("text", ["x", "0", "5..4", "1..500", "1..", "-1"])
def test_steps_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="profile steps"):
        parse_steps(text)
