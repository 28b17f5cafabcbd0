"""What the trainer tells of itself: the recorder, the clock, and the frames that carry it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.frames import HEADER, Type, encode
from headrace.spans import Clock, Recorder
from tests.fakebridge import FakeBatch, FakeBridge

GOLDEN = Path(__file__).parents[2] / "feed" / "testdata" / "spans.frame"
TAKES = {"spans": 4096}


def rows(body: dict[str, Any] | None) -> list[tuple[str, int, int, int, dict[str, float]]]:
    """Read a SPANS body as the bridge does: name, lane, start and end, args."""
    assert body is not None
    out, at = [], body["at"]
    args: dict[int, dict[str, float]] = defaultdict(dict)
    for a in body["args"]:
        args[a["row"]][body["names"][a["key"]]] = a["value"]
    columns = zip(body["name"], body["lane"], body["start"], body["duration"], strict=True)
    for i, (name, lane, start, took) in enumerate(columns):
        at += start
        out.append((body["names"][name], lane, at, at + took, args[i]))
    return out


def spans(bridge: FakeBridge) -> list[tuple[str, int, int, int, dict[str, float]]]:
    return [row for body in bridge.sent(Type.SPANS) for row in rows(body)]


def batches(n: int):
    return lambda step: FakeBatch({"x": np.zeros(4, np.int32)}) if step <= n else None


def test_spans_of_a_lane_follow_one_another() -> None:
    r = Recorder()
    begun = time.monotonic_ns() - 5_000_000
    with r.span("start", since_ns=begun, x=1) as args:
        with r.span("checkpoint", step=3):
            pass
        args["late"] = 7
    got = rows(r.take())
    assert [x[0] for x in got] == ["start", "checkpoint", "start"]
    for before, after in pairwise(got):
        assert before[3] <= after[2]
    assert got[1][4] == {"step": 3.0}
    assert got[2][4] == {"x": 1.0, "late": 7.0}
    assert sum(x[3] - x[2] for x in got) == pytest.approx(time.monotonic_ns() - begun, abs=5e6)
    assert abs(got[-1][3] - time.time_ns()) < 1e9


def test_recorder_is_bounded_and_counts_what_it_drops() -> None:
    r = Recorder(3)
    for i in range(5):
        r.record("x", 0, i, i + 1)
    body = r.take(2)
    assert body is not None
    assert len(body["name"]) == 2
    assert body["dropped"] == 3
    assert r.take() is None
    off = Recorder(0)
    off.record("x", 0, 0, 1)
    assert off.take() is None
    assert off.dropped == 0


def test_odd_names_and_arguments_still_make_a_frame() -> None:
    r = Recorder()
    odd = {"nan": float("nan"), "text": "3x", "big": 10**400, "four": 4}
    r.record("n" * 500, 0, 0, 1, {})
    r.record("", 0, 5, 2, odd)
    body = r.take()
    assert body is not None
    assert [len(n) for n in body["names"]] == [100, 1]
    assert body["args"] == []  # of four the first three count, and none is a finite number
    assert json.loads(encode(Type.SPANS, body)[HEADER.size :]) == body
    for i in range(2000):
        r.record(f"step {i}\ud800", -i, 0, 1)
    body = r.take()
    assert body is not None
    assert len(body["names"]) == 501
    assert body["names"][-1] == "other"
    assert body["lane"] == [0] * 2000
    assert encode(Type.SPANS, body)


def test_clock_takes_the_fastest_exchange() -> None:
    c = Clock(same_machine=False)
    assert c.best() == (0, 0)
    c.note(0, 100, {"received": 1040, "sent": 1050})  # 45 ns either way at most
    c.note(0, 1000, {"received": 1900, "sent": 1901})
    assert c.best() == (995, 46)
    c.note(0, 100, {"received": "x"})
    c.note(0, 100, None)
    c.note(0, 10, {"received": 5, "sent": 500})  # more than it took: no clock
    assert c.best() == (995, 46)
    same = Clock(same_machine=True)
    same.note(0, 100, {"received": 40, "sent": 45})
    assert same.best() == (0, 0)
    same.note(0, 2, {"received": 1040, "sent": 1041})  # a socket that leads elsewhere
    assert same.best() == (1039, 1)


def test_feed_tells_what_the_loop_does(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, batches(3), welcome=TAKES) as bridge:
        with headrace.connect(bridge.address) as feed:
            for batch in feed:
                with feed.span("my phase", step=batch.step) as args:
                    args["rows"] = 4
                feed.commit(batch.step)
    got = spans(bridge)
    names = [x[0] for x in got]
    assert names == ["wait for batch", "my phase"] * 3 + ["wait for batch"]
    assert [x[4].get("step") for x in got] == [1, 1, 2, 2, 3, 3, None]
    assert got[1][4]["rows"] == 4
    assert all(x[1] == 0 for x in got)
    for before, after in pairwise(got):
        assert before[3] <= after[2]
    assert [f["dropped"] for f in bridge.sent(Type.SPANS)][-1] == 0
    assert all("compiles" in c["metrics"] for c in bridge.sent(Type.COMMIT)) == (
        "jax" in sys.modules
    )


def test_bridge_that_takes_no_spans_is_sent_none(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, batches(2)) as bridge:
        with headrace.connect(bridge.address) as feed:
            for batch in feed:
                with feed.span("x"):
                    feed.commit(batch.step, {"loss": 1.0})
    assert not bridge.sent(Type.SPANS)
    assert bridge.sent(Type.COMMIT)[0]["metrics"] == {"loss": 1.0}


def test_refused_and_unanswered_spans_end_nothing(tmp_path: Path) -> None:
    refuse = {Type.SPANS: "no such lane"}
    with FakeBridge(tmp_path, batches(3), welcome=TAKES, refuse=refuse) as bridge:
        with headrace.connect(bridge.address) as feed:
            for batch in feed:
                feed.commit(batch.step, wait=True)
                with feed.span("x"):
                    feed._teller.tell(now=True)
            feed.flush(5)
    assert len(bridge.sent(Type.SPANS)) >= 3
    assert len(bridge.sent(Type.COMMIT)) == 3


def test_answers_that_nobody_remembers_break_nothing(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, batches(2), welcome=TAKES) as bridge:
        with headrace.connect(bridge.address) as feed:
            for batch in feed:
                for _ in range(40):
                    with feed.span("x"):
                        pass
                    feed._teller.tell(now=True)
                feed.commit(batch.step, wait=True)
            for _ in range(40):  # as in a long start, when nothing is asked for
                feed.spans.record("x", 0, 0, 1)
                feed.notice("progress", "x")
                feed._teller.tell(now=True)
            feed.notice("progress", "x")
            assert len(feed._teller._open) <= 8
    ids = [b["id"] for b in bridge.sent(Type.SPANS)]
    assert len(set(ids)) == len(ids) > 40
    assert max(ids) < 0


def test_long_wait_is_told_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.feed._WAIT_LOOK_S", 0.01)
    monkeypatch.setattr("headrace.feed._WAIT_PIECE_S", 0.02)
    monkeypatch.setattr("headrace.telling._EVERY_S", 0.01)
    enough = threading.Event()

    def before(type_: Type, body: dict[str, Any]) -> None:
        if len(bridge.sent(Type.SPANS)) >= 3:
            enough.set()

    bridge = FakeBridge(tmp_path, batches(1), welcome=TAKES, before_answer=before, slots=1)
    with bridge:
        with headrace.connect(bridge.address) as feed:
            held = next(feed)
            stuck = np.asarray(held.arrays["x"])  # the slot stays, so the next batch cannot come
            timer = threading.Thread(target=lambda: (enough.wait(10), feed.interrupt()))
            feed._wait_for_slot = lambda: None
            timer.start()
            assert next(feed, None) is None
            timer.join()
            del stuck
    assert enough.is_set()
    waits = [x for x in spans(bridge) if x[0] == "wait for batch"]
    assert len(waits) >= 3


def test_clock_of_a_bridge_elsewhere_is_measured(tmp_path: Path) -> None:
    now = time.time_ns() + 5_000_000_000
    welcome = TAKES | {"clock": {"received": now, "sent": now}}
    with FakeBridge(tmp_path, batches(1), welcome=welcome, tcp=True) as bridge:
        with headrace.connect(bridge.address) as feed:
            for batch in feed:
                feed.commit(batch.step)
    told = bridge.sent(Type.SPANS)[0]
    assert told["offset"] == pytest.approx(5e9, abs=2e9)
    assert 0 < told["uncertainty"] < 2e9


def test_golden_frame_is_what_the_feed_sends() -> None:
    r = Recorder()
    r.dropped = 2
    base = 1_000
    r.record("wait for batch", 0, base, base + 50, {"step": 7})
    r.record("train step", 0, base + 50, base + 90, {"step": 7, "loss": 0.5})
    r.record("compile", 1, base + 55, base + 70)
    body = r.take()
    assert body is not None
    body |= {"at": 1_700_000_000_000_000_000, "start": [-1_000_000, *body["start"][1:]]}
    frame = encode(Type.SPANS, {"id": 9, "offset": -5, "uncertainty": 3, **body})
    assert frame == GOLDEN.read_bytes()


CHILD = """
import jax, jax.numpy as jnp, time
from headrace.spans import Recorder
r = Recorder()
r.watch_compiles(); r.watch_compiles()
with r.span("train step"):
    jax.jit(lambda x: x * 3 + 1)(jnp.ones(7)).block_until_ready()
assert r.compiles >= 1 and r.compile_s > 0, r.compiles
body = r.take()
lanes = [(body["names"][n], l) for n, l in zip(body["name"], body["lane"])]
assert ("compile", 1) in lanes and lanes[-1] == ("train step", 0), lanes
before = r.compiles
r.close()
jax.jit(lambda x: x * 5 + 2)(jnp.ones(9)).block_until_ready()
assert r.compiles == before
print("well")
"""


def test_compilations_are_counted_and_drawn() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout == "well\n", done.stderr
