"""What it costs an engine to say how it is doing: `python -m tests.bench_engine_told`, from ../.

Requests are made inside of the engine's process, as many as it has slots, while another process
asks for its figures and device calls: not at all and 50 times a second, by turns, each time for
the calls of about a second. A sidecar asks once a second, so it costs a fiftieth of that.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import re
import statistics
import time
from typing import Any

import numpy as np

from headrace.engine.generate import Generation
from tests.enginerig import CFG, Rig

NEXT = re.compile(rb'"next": ?(\d+)')
RATE, ROUNDS, BLOCK_S = 50, 40, 0.5


def poll(port: int, on: Any, took: Any) -> None:
    """Ask 50 times a second while `on`; for a process of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def get(path: str) -> bytes:
        connection.request("GET", path)
        return connection.getresponse().read()

    place = json.loads(get("/headrace/batches"))
    past: list[int] = [place["next"]] * RATE  # the places of the last second
    while on.value >= 0:
        begun = time.monotonic()
        if on.value:
            get("/metrics")
            answer = get(f"/headrace/batches?after={past[0]}&boot={place['boot']}")
            found = NEXT.search(answer)
            assert found
            took.value = int(found[1]) - past[0]
            past = [*past[1:], int(found[1])]
        time.sleep(max(0.0, 1 / RATE - (time.monotonic() - begun)))


async def ask(rig: Rig, seed: int, ends: float) -> None:
    """Make one request after another."""
    rng = np.random.default_rng(seed)
    while time.monotonic() < ends:
        ids = rng.integers(1, CFG.vocab_size, 20).tolist()
        sampling = {"max_new_tokens": 40, "ignore_eos": True}
        body = {"input_ids": ids, "return_logprob": True, "sampling_params": sampling}
        await Generation(rig.engine, body).finished()


async def block(rig: Rig) -> float:
    """Return the tokens per second of a block."""
    counters = rig.engine.scheduler.counters
    before, begun = counters.generated_tokens, time.monotonic()
    await asyncio.gather(*(ask(rig, i, begun + BLOCK_S) for i in range(12)))
    return (counters.generated_tokens - before) / (time.monotonic() - begun)


def main() -> None:
    """Measure, and print figures."""
    context: Any = multiprocessing.get_context("spawn")
    rig = Rig()
    rig.update(1)
    rig.until(lambda: rig.engine.unready() is None)
    on, took = context.Value("i", 0), context.Value("i", 0)
    process = context.Process(target=poll, args=(rig.port, on, took), daemon=True)
    process.start()
    ratios, rate = [], 0.0
    for i in range(ROUNDS):
        got = [0.0, 0.0]
        for which in (i % 2, 1 - i % 2):
            on.value = which
            got[which] = rig.call(block(rig)).result()
        rate = got[0]
        if i >= 4:
            ratios.append(got[1] / got[0])
    on.value = -1
    process.join(10)
    ratio = statistics.median(ratios)
    print(f"{rate:.0f} tokens/s; asked {RATE} times a second, {took.value} calls each: {ratio:.4f}")
    print(f"asked once a second: {1 - (1 - ratio) / RATE:.5f} of the throughput")


if __name__ == "__main__":
    main()
