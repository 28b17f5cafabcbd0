"""What a trainer hears while no batch comes, and when none comes any more."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import headrace
from headrace.dial import connect
from headrace.errors import RunEnded
from headrace.stalls import ACHIEVED, EndReason, StallCode, Stalled
from tests.fakebridge import FakeBridge
from tests.test_feed import numbered

ROOT = Path(__file__).resolve().parents[3]

NOBODY: dict[str, Any] = {
    "stage": "producer",
    "code": "no_producers",
    "text": "grouper waits for 3 slots of group t41: no producer is connected",
    "since_s": 5.5,
}


def test_stall_reaches_callback_and_is_cleared_by_the_next_batch(tmp_path: Path) -> None:
    engine = {**NOBODY, "stage": "engine", "code": "no_engine", "text": "none"}
    heard: list[Stalled] = []
    with (
        FakeBridge(tmp_path, numbered, stalls={2: [NOBODY, engine]}) as bridge,
        connect(bridge.address) as feed,
    ):
        notices: list[dict[str, Any]] = []
        feed.on_stall, feed.on_notice = heard.append, notices.append
        assert feed.next().step == 1
        assert feed.last_stall is None
        feed.on_stall = lambda s: (heard.append(s), seen.append(feed.last_stall))[0]
        seen: list[Stalled | None] = []
        assert feed.next().step == 2
        assert feed.last_stall is None
    assert heard == seen
    assert heard[0] == headrace.Stalled("producer", "no_producers", NOBODY["text"], 5.5)
    assert [s.code for s in heard] == ["no_producers", "no_engine"]
    assert [n["code"] for n in notices] == ["no_producers", "no_engine"]


def test_run_that_moves_again_clears_the_stall(tmp_path: Path) -> None:
    again = {"stage": "grouper", "code": "", "text": "the run moves again"}
    last: list[Stalled | None] = []
    heard: list[Stalled] = []
    with (
        FakeBridge(tmp_path, numbered, stalls={1: [NOBODY, again]}) as bridge,
        connect(bridge.address) as feed,
    ):
        feed.on_stall = heard.append
        feed.on_notice = lambda _: last.append(feed.last_stall)
        feed.next()
    assert len(heard) == 1
    assert last == [heard[0], None]


def test_callback_may_give_up_waiting_and_the_batch_is_not_lost(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def give_up(s: Stalled) -> None:
        raise Enough(s.text)

    with (
        FakeBridge(tmp_path, numbered, stalls={1: [NOBODY]}) as bridge,
        connect(bridge.address) as feed,
    ):
        feed.on_stall = give_up
        with pytest.raises(Enough, match="no producer is connected"):
            feed.next()
        assert feed.last_stall is not None
        assert feed.next().step == 1


def test_unknown_code_of_a_newer_bridge_still_says_what_it_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        FakeBridge(tmp_path, numbered, stalls={1: [{"code": "moon", "text": "full"}]}) as bridge,
        connect(bridge.address) as feed,
    ):
        feed.next()
    assert "stalled for 0 s (no_batch): full" in caplog.text


@pytest.mark.parametrize("reason", [r for r in get_args(EndReason) if r != "interrupted"])
def test_end_is_typed(tmp_path: Path, reason: str) -> None:
    end = {"reason": reason, "text": f"because of {reason}"}
    with FakeBridge(tmp_path, numbered, end=end) as bridge, connect(bridge.address) as feed:
        assert [b.step for b in feed] == [1, 2, 3]
        assert feed.end == headrace.End(reason, 3, f"because of {reason}")  # type: ignore[arg-type]
        assert feed.end is not None
        assert feed.end.achieved == (reason in ("complete", "dataset_ended"))
        with pytest.raises(RunEnded, match=f"run ended: {reason}: because of {reason}"):
            feed.next()


def test_unknown_end_is_other(tmp_path: Path) -> None:
    end = {"reason": "eclipse"}
    with FakeBridge(tmp_path, numbered, end=end) as bridge, connect(bridge.address) as feed:
        list(feed)
        assert feed.end == headrace.End("other", 3, "eclipse")


def test_words_are_those_of_the_bus() -> None:
    """The Go constants and these literals are one list."""
    stall = (ROOT / "subjects" / "stall.go").read_text()
    codes = re.findall(r'StallCode = "(\w+)"', stall)
    assert sorted(codes) == sorted(get_args(StallCode))
    ledger = (ROOT / "subjects" / "ledger.go").read_text()
    ends = re.findall(r'End\w+ += "(\w+)"', ledger)
    own = {"drained", "interrupted", "other"}  # of bridge and client, not of the run
    assert sorted(ends) == sorted(set(get_args(EndReason)) - own)
    assert set(ACHIEVED) <= set(ends)
    golden = json.loads((ROOT / "subjects" / "testdata" / "v1" / "stall.json").read_text())
    assert golden["code"] in codes
