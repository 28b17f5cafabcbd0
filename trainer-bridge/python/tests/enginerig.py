"""A real engine on a loopback port for tests, with a gate before the device and a plain client."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import http.client
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax
import numpy as np
from aiohttp import web

from headrace import model, weights
from headrace.engine.batch import Sizes
from headrace.engine.core import Engine
from headrace.engine.server import API
from headrace.model import ModelConfig

CFG = ModelConfig(vocab_size=60, d_model=32, layers=2, heads=2, d_ff=64, max_context=120)
SIZES = Sizes(slots=12, context=120, rows=(8,), chunk=16, steps=4)


def params(seed: int) -> model.Params:
    return {k: v * 1.5 for k, v in model.init(jax.random.key(seed), CFG).items()}


class Gate:
    """Lets device calls pass: all of them, or as many as a test allows."""

    def __init__(self) -> None:
        self._open = True
        self._allowed = 0
        self._changed = threading.Condition()

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._open or self._allowed > 0)
            self._allowed = max(self._allowed - 1, 0)

    def allow(self, calls: int) -> None:
        with self._changed:
            self._allowed += calls
            self._changed.notify_all()

    @contextlib.contextmanager
    def closed(self) -> Iterator[Gate]:
        with self._changed:
            self._open, self._allowed = False, 0
        try:
            yield self
        finally:
            with self._changed:
                self._open = True
                self._changed.notify_all()


class Rig:
    """An engine with its loop in a thread, without weights at first."""

    def __init__(self, sizes: Sizes = SIZES) -> None:
        self.gate = Gate()
        self.root = Path(tempfile.mkdtemp(prefix="enginerig-"))
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.engine, self.port = self.call(self._start(sizes)).result()

    async def _start(self, sizes: Sizes) -> tuple[Engine, int]:
        engine = Engine(CFG, sizes)
        run = engine._device.run

        def gated(*args: Any) -> Any:
            self.gate.enter()
            return run(*args)

        setattr(engine._device, "run", gated)  # noqa: B010
        self._running = asyncio.create_task(engine.run())
        runner = web.ServerRunner(API(engine, "test").server(), shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return engine, runner.addresses[0][1]

    def call(self, coroutine: Any) -> Future[Any]:
        """Schedule a coroutine on the engine's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(method, path, data)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        kind = response.headers.get("Content-Type", "")
        return response.status, json.loads(text) if "json" in kind else text

    def get(self, path: str) -> tuple[int, Any]:
        return self.request("GET", path)

    def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        return self.request("POST", path, body if body is not None else {})

    def generate(self, ids: Any, rid: str | None = None, **sampling: Any) -> Any:
        """Generate with logprobs; the answer must be 200."""
        status, answer = self.post("/generate", self.body(ids, rid, **sampling))
        assert status == 200, answer
        return answer

    def body(self, ids: Any, rid: str | None = None, **sampling: Any) -> dict[str, Any]:
        base = {"max_new_tokens": 8, "ignore_eos": True, "sampling_seed": 7}
        out = {"input_ids": ids, "return_logprob": True, "sampling_params": base | sampling}
        return out | ({"rid": rid} if rid else {})

    def generate_in_background(self, ids: Any, rid: str | None = None, **s: Any) -> Future[Any]:
        """Generate in a thread; returns once the engine has the request."""
        done: Future[Any] = Future()

        def work() -> None:
            try:
                done.set_result(self.generate(ids, rid, **s))
            except BaseException as e:
                done.set_exception(e)

        before = self.engine.scheduler.counters.requests
        threading.Thread(target=work, daemon=True).start()
        self.until(lambda: self.engine.scheduler.counters.requests > before)
        return done

    def until(self, condition: Any) -> None:
        """Wait until a condition holds, asked on the engine's loop at each of its turns."""

        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.001)

        self.call(asyncio.wait_for(wait(), 60)).result()

    def stream(self, ids: Any, rid: str | None = None, **sampling: Any) -> Iterator[Any]:
        """Yield the chunks of a streamed answer; closing it closes the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = self.body(ids, rid, **sampling) | {"stream": True}
        connection.request("POST", "/generate", json.dumps(body))
        response = connection.getresponse()
        assert response.status == 200
        try:
            while (line := response.readline()) != b"data: [DONE]\n":
                if line.strip():
                    yield json.loads(line.removeprefix(b"data: "))
        finally:
            response.close()
            connection.close()

    def saved(self, seed: int) -> Path:
        """Return a weights directory with the parameters of a seed."""
        path = self.root / weights.version_dir(seed)
        if not path.exists():
            weights.save(self.root, path.name, params(seed), CFG)
        return path

    def update(self, seed: int, version: str | None = None) -> Any:
        """Load the weights of a seed over HTTP; the version is the seed unless given."""
        body = {"model_path": str(self.saved(seed)), "weight_version": version or str(seed)}
        status, answer = self.post("/update_weights_from_disk", body)
        assert status == 200, answer
        return answer


@functools.cache
def shared() -> Rig:
    """Return the one engine of the test process, serving the weights of seed 1 as version "1"."""
    rig = Rig()
    rig.update(1)
    rig.until(lambda: rig.engine.unready() is None)
    return rig


def fresh() -> Rig:
    """Return the shared engine as at its start: weights 1, nothing cached, running or paused."""
    rig = shared()
    rig.post("/pause_generation", {"mode": "abort"})
    rig.post("/continue_generation")
    rig.update(1)
    return rig


def trainer_logprobs(
    p: model.Params, prompt: list[int], output: list[int], temperature: float = 1.0
) -> np.ndarray:
    """Logprobs of the output tokens by the trainer's full forward."""
    tokens = np.array([prompt + output], np.int32)
    padded = np.pad(tokens, ((0, 0), (0, SIZES.context - tokens.shape[1])))
    idx = np.zeros((1, SIZES.context), np.int32)
    idx[0, : len(output)] = np.arange(len(prompt), tokens.shape[1])
    return np.asarray(_score(p, padded, idx, temperature))[0, : len(output)]


@jax.jit
def _score(p: model.Params, tokens: Any, idx: Any, temperature: Any) -> Any:
    return model.token_logprobs(p, CFG, tokens, idx, temperature=temperature)[0]


def logprobs(answer: Any) -> np.ndarray:
    """Logprobs of an answer, after checking that their ids are the output ids."""
    triples = answer["meta_info"]["output_token_logprobs"]
    assert [t[1] for t in triples] == answer["output_ids"]
    assert all(t[2] is None for t in triples)
    return np.array([t[0] for t in triples])
