"""The client against a bridge: what travels, in which order, and what every failure looks like."""

from __future__ import annotations

import gc
import os
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import frames
from headrace.dial import connect
from headrace.errors import Disconnected, FeedError, ProtocolError, RunEnded, SlotsHeld
from headrace.frames import HEADER, MAGIC, Type
from tests.fakebridge import FakeBatch, FakeBridge


def numbered(step: int, last: int = 3) -> FakeBatch | None:
    """A batch whose every element tells its step."""
    if step > last:
        return None
    return FakeBatch(
        {
            "tokens": np.full((4, 8), step, np.int32),
            "loss_mask": np.ones((4, 8), np.uint8),
            "advantages": np.full(4, step / 2, np.float32),
        },
        meta={
            "rows": 4,
            "tokens": 32,
            "reward_mean": 0.25,
            "staleness": {"mean": 0.5, "max": 1},
            "groups": [{"group": "t0", "rows": [0, 4], "reward_mean": 0.25}],
        },
    )


@pytest.mark.parametrize(
    ("tcp", "transport"), [(False, "memfd"), (False, "stream"), (True, "stream")]
)
def test_batches_arrive_in_order_with_their_arrays(
    tmp_path: Path, tcp: bool, transport: str
) -> None:
    with FakeBridge(tmp_path, numbered, tcp=tcp) as bridge:
        with connect(bridge.address, transport=transport, verify=True) as feed:
            steps = []
            for batch in feed:
                steps.append(batch.step)
                assert batch.tokens.dtype == np.int32
                assert batch["tokens"].shape == (4, 8)
                assert (batch.tokens == batch.step).all()
                assert (batch.advantages == batch.step / 2).all()
                assert not batch.tokens.flags.writeable
                assert batch.tokens.ctypes.data % 64 == 0
                assert (batch.rows, batch.token_count, batch.staleness["max"]) == (4, 32, 1)
                assert batch.ledger_seq == 100 + batch.step
                assert batch.groups[0].count == 4
                assert sorted(batch) == ["advantages", "loss_mask", "tokens"]
            assert steps == [1, 2, 3]
            assert (feed.end_reason, feed.end_steps) == ("complete", 3)
            with pytest.raises(RunEnded):
                feed.next()
    released = [b["step"] for b in bridge.sent(Type.RELEASE)]
    assert released == ([1, 2, 3] if transport == "memfd" else [])
    assert bridge.sent(Type.BYE) == [{"reason": "done"}]


def test_resumes_behind_the_checkpoint(tmp_path: Path) -> None:
    with (
        FakeBridge(tmp_path, numbered) as bridge,
        connect(bridge.address, checkpoint_step=2, rank=1, world=2, token="t") as feed,
    ):
        assert feed.config.start_step == 3
        assert [b.step for b in feed] == [3]
    hello = bridge.sent(Type.HELLO)[0]
    assert (hello["checkpoint_step"], hello["rank"], hello["world"]) == (2, 1, 2)
    assert hello["token"] == "t"


def test_reports_reach_the_bridge(tmp_path: Path) -> None:
    with (
        FakeBridge(tmp_path, numbered) as bridge,
        connect(bridge.address) as feed,
    ):
        feed.notice("progress", "warm start", done=1, total=2)
        feed.next()
        feed.commit(1, {"loss": 0.5, "bad": float("nan")}, train_s=1.5, tokens=32)
        feed.publish_weights(1, 1, tmp_path, [{"name": "w", "bytes": 1, "sha256": "00"}])
        acks = feed.wait_weights(1, "all", 1.0)
        assert (acks.acked, acks.missing, acks.timed_out) == (("e1",), (), False)
        feed.checkpointed(1, tmp_path / "c")
    commit = bridge.sent(Type.COMMIT)[0]
    assert commit["metrics"] == {"loss": 0.5, "nonfinite": 1.0}
    assert (commit["step"], commit["train_s"], commit["tokens"]) == (1, 1.5, 32)
    assert commit["wait_s"] >= 0
    assert bridge.sent(Type.WEIGHTS)[0]["dir"] == str(tmp_path)
    assert bridge.sent(Type.CHECKPOINTED)[0]["path"] == str(tmp_path / "c")
    assert bridge.notices == [{"kind": "progress", "text": "warm start", "done": 1, "total": 2}]


def test_refused_commit_is_raised_by_a_later_call(tmp_path: Path) -> None:
    bridge = FakeBridge(tmp_path, numbered, refuse={Type.COMMIT: "step 1 is committed already"})
    with bridge, connect(bridge.address) as feed:
        feed.next()
        feed.commit(1)
        with pytest.raises(FeedError, match="commit 1: step 1 is committed already"):
            feed.flush()


def test_refused_commit_is_raised_on_the_way_out(tmp_path: Path) -> None:
    bridge = FakeBridge(tmp_path, numbered, refuse={Type.COMMIT: "no"})
    with bridge, pytest.raises(FeedError, match="refused commit 1: no"):
        with connect(bridge.address) as feed:
            feed.commit(1)


def test_batch_that_arrives_early_is_not_lost(tmp_path: Path) -> None:
    """An interrupted wait leaves NEXT open; its answer may come while another call waits."""
    gate = threading.Event()

    def hold(type_: Type, _: dict[str, Any]) -> None:
        if type_ is Type.NEXT:
            gate.wait(10)

    bridge = FakeBridge(tmp_path, numbered, before_answer=hold)
    with bridge, connect(bridge.address) as feed:
        feed.interrupt()
        with pytest.raises(RunEnded, match="interrupted"):
            feed.next()
        gate.set()
        feed.checkpointed(0, "c")
        assert feed.end_reason == "interrupted"
        feed.end, feed._interrupted = None, False
        os.read(feed._wake_r, 1)
        assert feed.next().step == 1
    assert len(bridge.sent(Type.NEXT)) == 1


def test_released_batch_refuses_access(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, numbered) as bridge, connect(bridge.address) as feed:
        batch = feed.next()
        batch.release()
        batch.release()
        with pytest.raises(FeedError, match="batch of step 1 was released"):
            _ = batch.tokens
    assert len(bridge.sent(Type.RELEASE)) == 1


def test_unknown_array_is_an_attribute_error(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, numbered) as bridge, connect(bridge.address) as feed:
        assert not hasattr(feed.next(), "token")


def test_held_views_delay_the_release(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, numbered) as bridge, connect(bridge.address) as feed:
        kept = feed.next().tokens[1:3]
        feed.next()
        feed.commit(1, wait=True)
        assert bridge.sent(Type.RELEASE) == []
        assert (kept == 1).all()
        del kept
        feed.commit(2, wait=True)
        assert [b["step"] for b in bridge.sent(Type.RELEASE)] == [1]


def test_holding_every_slot_is_an_error_not_a_deadlock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.feed._HOLD_TIMEOUT_S", 0.05)
    with FakeBridge(tmp_path, numbered, slots=2) as bridge, connect(bridge.address) as feed:
        kept = [feed.next().tokens, feed.next().tokens]
        with pytest.raises(SlotsHeld, match="all 2 slots are held by arrays of steps 1, 2"):
            feed.next()
        kept.clear()
        assert feed.next().step == 3


def test_arrays_outlive_the_feed(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, numbered) as bridge:
        with connect(bridge.address) as feed:
            tokens = feed.next().tokens
        del feed
        gc.collect()
        assert (tokens == 1).all()


def test_bridge_that_hangs_up_is_disconnected(tmp_path: Path) -> None:
    def hang_up(type_: Type, _: dict[str, Any]) -> None:
        if type_ is Type.NEXT:
            bridge.hang_up()

    bridge = FakeBridge(tmp_path, numbered, before_answer=hang_up)
    with bridge, pytest.raises(Disconnected, match="bridge closed the connection"):
        with connect(bridge.address) as feed:
            feed.next()


def test_missing_bridge_is_disconnected(tmp_path: Path) -> None:
    with pytest.raises(Disconnected, match="no bridge at unix:"):
        connect(f"unix:{tmp_path}/none", timeout_s=0.0)


def test_bad_address_is_refused() -> None:
    with pytest.raises(FeedError, match="neither unix:/path nor tcp:host:port"):
        connect("/tmp/x")
    with pytest.raises(FeedError, match="is not host:port"):
        connect("tcp:nowhere", timeout_s=0.0)


def test_refused_greeting_has_the_bridges_words(tmp_path: Path) -> None:
    bridge = FakeBridge(tmp_path, numbered, refuse={Type.HELLO: "another trainer is connected"})
    with bridge, pytest.raises(FeedError, match="another trainer is connected"):
        connect(bridge.address)


def test_other_protocol_version_is_refused(tmp_path: Path) -> None:
    bridge = FakeBridge(tmp_path, numbered, welcome={"v": 2})
    with bridge, pytest.raises(ProtocolError, match="protocol 2, this client speaks 1"):
        connect(bridge.address)


def test_ring_smaller_than_promised_is_refused(tmp_path: Path) -> None:
    bridge = FakeBridge(tmp_path, numbered, welcome={"slots": 1000})
    with bridge, pytest.raises(ProtocolError, match="ring is smaller"):
        connect(bridge.address)


@pytest.mark.parametrize(
    "meta",
    [
        {"slot": 7},
        {"offset": -64},
        {"nbytes": 1 << 40},
        {"arrays": [{"name": "x", "dtype": "<i8", "shape": [1], "offset": 0}]},
        {"arrays": [{"name": "x", "dtype": "<i4", "shape": [1], "offset": 4}]},
        {"arrays": [{"name": "x", "dtype": "<i4", "shape": [-1], "offset": 0}]},
        {"arrays": [{"name": "x", "dtype": "<i4", "shape": [1 << 30, 1 << 30], "offset": 0}]},
        {"arrays": [{"name": "x", "dtype": "<i4", "shape": [2], "offset": -64}]},
        {"arrays": 3},
        {"step": None},
        {"groups": [{"group": "g"}]},
    ],
    ids=lambda m: next(iter(m)) + str(next(iter(m.values())))[:60],
)
def test_malformed_batch_is_a_protocol_error(tmp_path: Path, meta: dict[str, Any]) -> None:
    def source(step: int) -> FakeBatch:
        return FakeBatch({"x": np.zeros(16, np.int32)}, meta=meta)

    with FakeBridge(tmp_path, source, slots=2) as bridge, connect(bridge.address) as feed:
        # slot and offset are set by the bridge; those cases are put on the wire by the meta of a
        # stream transport's header, so patch the check's input directly
        if {"slot", "offset"} & set(meta):
            body = {"slot": 0, "offset": 0, "nbytes": 64} | meta
            frame = frames.Frame(Type.BATCH, body, np.empty(0, np.uint8))
            with pytest.raises(ProtocolError):
                feed._memory(frame)
        else:
            with pytest.raises(ProtocolError):
                feed.next()


def test_flipped_byte_fails_verification(tmp_path: Path) -> None:
    def source(step: int) -> FakeBatch:
        return FakeBatch({"x": np.zeros(16, np.int32)}, meta={"digest": "00000000"})

    with FakeBridge(tmp_path, source) as bridge, connect(bridge.address, verify=True) as feed:
        with pytest.raises(ProtocolError, match="digest"):
            feed.next()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"GET / HTTP/1.1\r\nHost: 12345", "not a bridge"),
        (HEADER.pack(MAGIC, 99, 0, 2, 0, 0) + b"{}", "unknown frame type 99"),
        (HEADER.pack(MAGIC, 2, 1, 2, 0, 0) + b"{}", "unknown flags"),
        (HEADER.pack(MAGIC, 2, 0, 1 << 25, 0, 0), "over the limit"),
        (HEADER.pack(MAGIC, 2, 0, 2, 0, 1 << 60) + b"{}", "over the limit"),
        (HEADER.pack(MAGIC, 2, 0, 3, 0, 0) + b"{]}", "is not JSON"),
        (HEADER.pack(MAGIC, 2, 0, 2, 0, 0) + b"[]", "no JSON object"),
        (HEADER.pack(MAGIC, 2, 0, 2, 0, 0) + b"{", "closed the connection"),
        (HEADER.pack(MAGIC, 2, 0, 2, 0, 0)[:10], "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_broken_frames_are_errors(raw: bytes, message: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(raw)
    stream = frames.Stream(ours)
    with pytest.raises(FeedError, match=message):
        stream.receive(with_fds=True)
    stream.close()
