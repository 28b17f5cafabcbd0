"""The trainer against a bridge: what it announces, how it stops, and that it resumes exactly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import checkpoint, warmstart, weights
from headrace.errors import Disconnected, FeedError
from headrace.frames import Type
from headrace.trainer.config import TrainerConfig
from headrace.trainer.loop import Stop, TrainingError, run
from tests import synthetic
from tests.fakebridge import FakeBatch, FakeBridge


def train(
    where: Path,
    last: int,
    trainer: Mapping[str, Any] | None = None,
    source: Any = None,
    **paths: str,
) -> FakeBridge:
    """Train in `where` on synthetic batches up to step `last`; return the bridge that served."""
    welcome = synthetic.welcome(where, trainer, **paths)
    where.mkdir(exist_ok=True)
    (where / "feed.sock").unlink(missing_ok=True)
    bridge = FakeBridge(where, source or synthetic.source(last), welcome=welcome)
    with bridge:
        run(bridge.address, Stop())
    return bridge


def arrays(where: Path) -> Mapping[str, np.ndarray]:
    saved = checkpoint.latest(where / "checkpoints")
    assert saved is not None
    return saved.arrays


def test_fresh_run_reports_everything_in_order(tmp_path: Path) -> None:
    bridge = train(tmp_path, 5, {"checkpoint_every": 2, "sync_every": 2})
    order = [
        f"{t.name} {b.get('step')}"
        for t, b in bridge.frames
        if t in (Type.COMMIT, Type.CHECKPOINTED, Type.WEIGHTS)
    ]
    assert order == [
        "CHECKPOINTED 0",
        "WEIGHTS 0",
        "COMMIT 1",
        "COMMIT 2",
        "WEIGHTS 2",
        "CHECKPOINTED 2",
        "COMMIT 3",
        "COMMIT 4",
        "WEIGHTS 4",
        "CHECKPOINTED 4",
        "COMMIT 5",
        "WEIGHTS 5",
        "CHECKPOINTED 5",
    ]
    assert bridge.sent(Type.HELLO)[0]["checkpoint_step"] is None
    assert bridge.sent(Type.BYE) == [{"reason": "done"}]
    metrics = bridge.sent(Type.COMMIT)[0]["metrics"]
    assert set(metrics) >= {
        "loss",
        "entropy",
        "clip_fraction",
        "kl",
        "log_ratio_abs",
        "grad_norm",
        "is_weight_mean",
        "is_weight_max",
        "logprob_diff_mean",
        "reward_mean",
        "tokens",
        "lr",
    }
    assert metrics["entropy"] == pytest.approx(np.log(synthetic.VOCAB), rel=0.1)
    assert metrics["reward_mean"] == 0.5


def test_announced_weights_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    bridge = train(tmp_path, 2)
    event = bridge.sent(Type.WEIGHTS)[-1]
    loaded = weights.load(event["dir"])
    assert loaded.sha256 in [f["sha256"] for f in event["files"]]
    for name, x in loaded.params.items():
        np.testing.assert_array_equal(x, arrays(tmp_path)[f".params[{name!r}]"])


@pytest.mark.parametrize(
    "trainer",
    [
        {"checkpoint_every": 3},
        {
            "checkpoint_every": 3,
            "kl_beta": 0.1,
            "importance_sampling": {"mode": "token"},
            "seed": 5,
            "dual_clip": 3.0,
        },
    ],
    ids=["plain", "kl, importance sampling"],
)
def test_resumed_run_ends_with_the_same_bits(tmp_path: Path, trainer: dict[str, Any]) -> None:
    train(tmp_path / "straight", 6, trainer)
    train(tmp_path / "broken", 3, trainer)
    second = train(tmp_path / "broken", 6, trainer)
    assert second.sent(Type.HELLO)[0]["checkpoint_step"] == 3
    assert [b["step"] for b in second.sent(Type.COMMIT)] == [4, 5, 6]
    assert second.sent(Type.WEIGHTS)[0]["version"] == 3
    assert second.sent(Type.CHECKPOINTED)[0]["step"] == 3
    straight, broken = arrays(tmp_path / "straight"), arrays(tmp_path / "broken")
    assert set(straight) == set(broken)
    for name, x in straight.items():
        assert x.tobytes() == broken[name].tobytes(), name


def test_checkpoint_elsewhere_reopens_the_feed(tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    train(tmp_path, 2, checkpoints=elsewhere)
    bridge = train(tmp_path, 3, checkpoints=elsewhere)
    assert [h["checkpoint_step"] for h in bridge.sent(Type.HELLO)] == [None, 2]
    assert [b["step"] for b in bridge.sent(Type.COMMIT)] == [3]


def test_configured_steps_end_the_run(tmp_path: Path) -> None:
    bridge = train(tmp_path, 100, {"steps": 2})
    assert [b["step"] for b in bridge.sent(Type.COMMIT)] == [1, 2]
    assert bridge.sent(Type.CHECKPOINTED)[-1]["step"] == 2


def test_warm_start_teaches_the_demonstrations(tmp_path: Path) -> None:
    demos = synthetic.demos(tmp_path / "demos.jsonl")
    trainer = {"warm_start": {"steps": 40, "batch": 8, "lr": 0.03}}
    bridge = train(tmp_path, 0, trainer, demos=demos)
    first, last = bridge.notices[0], bridge.notices[-1]
    assert (first["kind"], first["phase"], first["done"]) == ("progress", "warm start", 1)
    assert (last["done"], last["total"]) == (40, 40)
    assert last["loss"] < first["loss"] / 4
    assert bridge.sent(Type.WEIGHTS)[0]["version"] == 0


def test_training_follows_the_advantages(tmp_path: Path) -> None:
    """Tokens with a positive advantage gain probability, those with a negative one lose it."""

    def source(step: int) -> FakeBatch | None:
        return FakeBatch(synthetic.episodes(1)) if step <= 12 else None

    bridge = train(tmp_path, 12, {"lr": 0.003}, source=source)
    losses = [b["metrics"]["loss"] for b in bridge.sent(Type.COMMIT)]
    assert losses[-1] < losses[0] - 0.1


def test_waits_for_the_engines_if_told_to(tmp_path: Path) -> None:
    bridge = train(tmp_path, 1, {"wait_weights": {"need": "all", "timeout_s": 5}})
    assert [(b["version"], b["need"]) for b in bridge.sent(Type.WAIT_WEIGHTS)] == [
        (0, "all"),
        (1, "all"),
    ]


def test_missing_demonstrations_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no demonstrations"):
        train(tmp_path, 1, {"warm_start": {"steps": 1}})


def test_other_model_than_the_checkpoints_is_an_error(tmp_path: Path) -> None:
    train(tmp_path, 1)
    (tmp_path / "feed.sock").unlink()
    welcome = synthetic.welcome(tmp_path)
    welcome["model"] = {**synthetic.MODEL, "d_ff": 64}
    with FakeBridge(tmp_path, synthetic.source(2), welcome=welcome) as bridge:
        with pytest.raises(TrainingError, match="was the recipe changed"):
            run(bridge.address, Stop())


def test_loss_that_is_not_finite_ends_training_before_it_spreads(tmp_path: Path) -> None:
    def source(step: int) -> FakeBatch:
        batch = synthetic.episodes(step)
        return FakeBatch(batch | {"advantages": np.full(8, np.nan, np.float32)})

    with pytest.raises(TrainingError, match="step 1: loss or gradient is not finite"):
        train(tmp_path, 1, source=source)
    assert sorted(p.name for p in (tmp_path / "weights").iterdir()) == ["v000000-1"]


def test_stop_before_the_first_batch_leaves_version_0(tmp_path: Path) -> None:
    stop = Stop()

    def on(type_: Type, _: dict[str, Any]) -> None:
        if type_ is Type.NEXT:
            stop.set()

    welcome = synthetic.welcome(tmp_path)
    bridge = FakeBridge(tmp_path, synthetic.source(9), welcome=welcome, before_answer=on)
    with bridge:
        run(bridge.address, stop)
    assert bridge.sent(Type.BYE) == [{"reason": "interrupted"}]
    assert bridge.sent(Type.CHECKPOINTED)[-1]["step"] in (0, 1)


def test_refused_commit_ends_training(tmp_path: Path) -> None:
    welcome = synthetic.welcome(tmp_path)
    bridge = FakeBridge(
        tmp_path, synthetic.source(9), welcome=welcome, refuse={Type.COMMIT: "not now"}
    )
    with bridge, pytest.raises(FeedError, match="not now"):
        run(bridge.address, Stop())


def test_lost_bridge_is_disconnected(tmp_path: Path) -> None:
    def on(type_: Type, _: dict[str, Any]) -> None:
        if type_ is Type.COMMIT:
            bridge.hang_up()

    welcome = synthetic.welcome(tmp_path)
    bridge = FakeBridge(tmp_path, synthetic.source(9), welcome=welcome, before_answer=on)
    with bridge, pytest.raises(Disconnected):
        run(bridge.address, Stop())


# --- the process -----------------------------------------------------------------------------


class Process:
    """`python -m headrace.trainer` as a child; `ended` waits and gives code and log."""

    def __init__(self, address: str, *args: str) -> None:
        command = [sys.executable, "-m", "headrace.trainer", "--feed", address, *args]
        root = str(Path(__file__).parent.parent)
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )

    def ended(self) -> tuple[int, str]:
        _, log = self.child.communicate(timeout=120)
        return self.child.returncode, log


def test_sigterm_finishes_the_step_saves_and_exits_0(tmp_path: Path) -> None:
    def on(type_: Type, body: dict[str, Any]) -> None:
        if type_ is Type.COMMIT and body["step"] == 2:
            process.child.send_signal(signal.SIGTERM)

    welcome = synthetic.welcome(tmp_path, {"checkpoint_every": 1000})
    bridge = FakeBridge(tmp_path, synthetic.source(10**6), welcome=welcome, before_answer=on)
    with bridge:
        process = Process(bridge.address)
        code, log = process.ended()
    assert code == 0, log
    assert bridge.sent(Type.BYE) == [{"reason": "interrupted"}]
    last = bridge.sent(Type.COMMIT)[-1]["step"]
    saved = checkpoint.latest(tmp_path / "checkpoints")
    assert saved is not None
    assert (saved.step, saved.ledger_seq) == (last, 100 + last)
    assert "step 2: reward 0.500" in log


def test_lost_feed_is_one_line_and_exit_3(tmp_path: Path) -> None:
    def on(type_: Type, _: dict[str, Any]) -> None:
        if type_ is Type.NEXT:
            bridge.hang_up()

    welcome = synthetic.welcome(tmp_path)
    bridge = FakeBridge(tmp_path, synthetic.source(9), welcome=welcome, before_answer=on)
    with bridge:
        code, log = Process(bridge.address).ended()
    assert code == 3
    assert "feed lost: " in log.splitlines()[-1]
    assert "Traceback" not in log


def test_parents_death_stops_it(tmp_path: Path) -> None:
    def on(type_: Type, body: dict[str, Any]) -> None:
        if type_ is Type.COMMIT and body["step"] == 1:
            assert process.child.stdin
            process.child.stdin.close()

    welcome = synthetic.welcome(tmp_path)
    bridge = FakeBridge(tmp_path, synthetic.source(10**6), welcome=welcome, before_answer=on)
    with bridge:
        process = Process(bridge.address, "--exit-with-parent")
        assert process.child.wait(120) == 0
    assert bridge.sent(Type.BYE) == [{"reason": "interrupted"}]
    assert process.child.stderr
    process.child.stderr.close()


def test_bad_settings_exit_2(tmp_path: Path) -> None:
    welcome = synthetic.welcome(tmp_path, {"learning_rate": 1})
    with FakeBridge(tmp_path, synthetic.source(9), welcome=welcome) as bridge:
        code, log = Process(bridge.address).ended()
    assert code == 2
    assert "trainer has no setting 'learning_rate'" in log.splitlines()[-1]


# --- settings and demonstrations --------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"lr": "fast"}, "trainer.lr is 'fast'"),
        ({"steps": 1.5}, "trainer.steps is 1.5"),
        ({"betas": [0.9]}, "trainer.betas"),
        ({"betas": [0.9, 1.0]}, "trainer.betas"),
        ({"kl_mode": "k3"}, "trainer.kl_mode is 'k3'; allowed: kl, mse_kl, low_var_kl"),
        ({"warm_start": {"step": 1}}, "trainer.warm_start has no setting 'step'"),
        ({"warm_start": 3}, "trainer.warm_start is 3"),
        ({"micro_batch": 0}, "trainer.micro_batch must be positive"),
        ({"dual_clip": 0.5}, "dual_clip must be above 1"),
        ({"lr": True}, "trainer.lr is True"),
    ],
)
def test_bad_settings_are_refused_by_name(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        TrainerConfig.from_dict(section)


def test_settings_come_back_and_null_is_the_default() -> None:
    cfg = TrainerConfig.from_dict({"lr": 1, "buckets": None, "warm_start": {"steps": 3.0}})
    assert (cfg.lr, cfg.buckets, cfg.warm_start.steps) == (1.0, (), 3)
    assert TrainerConfig.from_dict(json.loads(json.dumps(cfg.to_dict()))) == cfg
    assert cfg.ladder(144)[:4] == (64, 96, 144, 192)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"ids": []}',
        '{"ids": [99], "mask": []}',
        '{"ids": [1, 2], "mask": [[1, 3]]}',
        '{"ids": [1, 2], "mask": [1]}',
        '{"ids": [[1]], "mask": []}',
    ],
)
def test_bad_demonstrations_name_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "demos.jsonl"
    path.write_text('{"ids": [1, 2], "mask": [[1, 2]]}\n' + line + "\n")
    with pytest.raises(ValueError, match="line 2"):
        warmstart.read(path, vocab_size=32, max_tokens=16)


def test_demonstrations_are_masked_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "demos.jsonl"
    path.write_text(
        '{"ids": [5, 6, 7, 8], "mask": [[0, 2], [3, 4]], "reward": 1}\n'
        '{"ids": [5, 6], "mask": [[1, 2]], "reward": 0}\n'
    )
    demos = warmstart.read(path, vocab_size=32, max_tokens=3)
    np.testing.assert_array_equal(demos.rows.tokens, [[5, 6, 7], [5, 6, 0]])
    np.testing.assert_array_equal(demos.rows.mask, [[0, 1, 0], [0, 1, 0]])
    assert demos.reward_mean == 0.5
