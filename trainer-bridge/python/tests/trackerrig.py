"""A feed with trackers on it, and what every tracker is held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import headrace
from headrace import trackers
from tests.fakebridge import FakeBatch, FakeBridge
from tests.synthetic import episodes

Read = Callable[[Path], Mapping[int, Mapping[str, float]]]
"""Reads what a tracker has: metrics by step."""


def batch(step: int) -> FakeBatch:
    arrays = episodes(step)
    arrays["rewards"] = np.array([1, 1, 1, 1, 0, 1, 0.5, 0], np.float32)
    groups = [
        {"group": "t0", "rows": [0, 4], "reward_mean": 1.0},
        {"group": "t1", "rows": [4, 3], "reward_mean": 0.5},
    ]
    meta = {"rows": 7, "tokens": 100, "reward_mean": 0.75, "staleness": {"mean": 0.5, "max": 1}}
    return FakeBatch(arrays, meta=meta | {"groups": groups})


def train(where: Path, kinds: list[str], first: int, last: int) -> None:
    """One trainer's life: steps `first` to `last`, its trackers below `where`/trackers."""
    told = {"run": "lake", "paths": {"weights": "w", "checkpoints": str(where / "checkpoints")}}
    feed_folder = where / f"feed-{first}-{last}"
    feed_folder.mkdir()
    with FakeBridge(feed_folder, lambda n: batch(n) if n <= last else None, welcome=told) as bridge:
        with headrace.connect(bridge.address) as feed:
            trackers.attach(feed, kinds)
            for b in feed:
                if b.step < first:
                    continue
                m = {"loss": 1 / b.step, "kl": 0.01, "grad_norm": 2.0, "mine/own": 3.0}
                m |= {"entropy": math.nan}
                feed.commit(b.step, m, train_s=0.5, wait_s=1.5, tokens=b.token_count)


def check(where: Path, kind: str, read: Read) -> None:
    """A run, and a trainer that goes on from an earlier step: every step once."""
    train(where, [kind], 1, 5)
    train(where, [kind], 4, 8)
    got = read(where / "trackers")
    assert sorted(got) == list(range(1, 9)), sorted(got)
    for step, m in got.items():
        assert m["loss"] == m["actor/pg_loss"] == np.float32(1 / step) or math.isclose(
            m["loss"], 1 / step, rel_tol=1e-6
        )
        assert m["num_tokens"] == 100 * step
        assert m["headrace/policy_version"] == m["training/global_step"] == step
        assert m["reward"] == m["critic/rewards/mean"] == 0.75
        assert m["frac_reward_zero_std"] == 0.5
        assert m["perf/throughput"] == 50
        assert m["mine/own"] == 3
        assert "entropy" not in m
