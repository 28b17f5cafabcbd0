"""What it costs a trainer to say what it does: `python -m tests.bench_spans`, from ../.

A feed loop with a bridge in another process that takes spans, and one that takes none, by turns.
Counted is the CPU time of the loop's thread, so that a busy machine changes little: the frames
sent and received, the recording, and the sending of spans. A step of the demonstration takes half
a second.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import headrace
from headrace import telling
from tests.fakebridge import FakeBatch, FakeBridge

STEPS, ROUNDS, STEP_S = 300, 15, 0.5


def serve(where: str, takes: int, ready: Connection) -> None:
    """Run a bridge with `STEPS` batches until told to end."""

    def source(step: int) -> FakeBatch | None:
        return FakeBatch({"tokens": np.zeros((8, 64), np.int32)}) if step <= STEPS else None

    bridge = FakeBridge(Path(where), source, welcome={"spans": takes} if takes else None)
    with bridge:
        ready.send(bridge.address)
        ready.recv()


def loop(address: str, every_s: float) -> float:
    """Run the loop once; return its CPU microseconds a step."""
    telling._EVERY_S = every_s
    with headrace.connect(address) as feed:
        begun = time.thread_time()
        for batch in feed:
            with feed.span("prepare", step=batch.step):
                pass
            with feed.span("train step", step=batch.step):
                pass
            feed.commit(batch.step, {"loss": 1.0})
            with feed.span("publish weights", version=batch.step):
                pass
        return (time.thread_time() - begun) / STEPS * 1e6


def main() -> None:
    """Measure, and print figures."""
    context: Any = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        bridges = []
        for takes in (0, 4096):
            here, there = context.Pipe()
            where = Path(folder) / str(takes)
            where.mkdir()
            process = context.Process(target=serve, args=(str(where), takes, there), daemon=True)
            process.start()
            bridges.append((here, here.recv(), process))
        without, once, each = [], [], []
        for _ in range(ROUNDS):
            without.append(loop(bridges[0][1], 1.0))
            once.append(loop(bridges[1][1], 1.0))  # a frame a second, as it is
            each.append(loop(bridges[1][1], 0.0))  # a frame at every chance: slow steps
        for here, _, process in bridges:
            here.send("end")
            process.join(10)
    bare = statistics.median(without)
    print(f"a step of the loop alone: {bare:.0f} us of CPU")
    for what, got in (("a frame a second", once), ("a frame at every chance", each)):
        more = statistics.median(a - b for a, b in zip(got, without, strict=True))
        share = more / (STEP_S * 1e6)
        print(f"spans, {what}: {more:+.0f} us a step, {share:.4%} of a step of {STEP_S} s")


if __name__ == "__main__":
    main()
