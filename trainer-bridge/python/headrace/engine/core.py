"""The engine: one loop that gives the device one call after another, and what happens in between.

Everything belongs to the event loop's thread; only the device call itself runs in a worker thread.
Whatever must not meet a call in flight (new weights, a pause) runs between two calls, so each call
has exactly one set of weights, and the tokens it samples carry that set's version.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace import weights
from headrace.engine.batch import Sizes
from headrace.engine.device import Device
from headrace.engine.request import Request
from headrace.engine.scheduler import Scheduler
from headrace.engine.trail import Trail
from headrace.model import ModelConfig, Params

T = TypeVar("T")
log = logging.getLogger("headrace.engine")


@dataclasses.dataclass(frozen=True)
class Served:
    """The weights in use: where they came from, and the checksum of `model.safetensors` as read."""

    params: Params
    path: str
    version: str
    sha256: str


class Engine:
    """Serves one model. `run` must be running for requests to advance."""

    def __init__(self, cfg: ModelConfig, sizes: Sizes) -> None:
        self.cfg, self.sizes = cfg, sizes
        self.scheduler = Scheduler(sizes)
        self.served: Served | None = None
        self.paused = False
        self.device_seconds = 0.0
        self.trail = Trail()
        self._device = Device(cfg, sizes)
        self._worker = ThreadPoolExecutor(1, "device")
        self._compiled = 0
        self._wake = asyncio.Event()
        self._between: list[Callable[[], None]] = []
        self._call_started: float | None = None
        self._loading = asyncio.Lock()

    async def run(self) -> None:
        """Compile, then serve until cancelled."""
        compiling = asyncio.create_task(self._compile())
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while await self._step():
                    pass
        finally:
            compiling.cancel()
            await asyncio.gather(compiling, return_exceptions=True)
            self._worker.shutdown(wait=False, cancel_futures=True)

    async def _compile(self) -> None:
        started = time.monotonic()
        for rows, chunk in self._device.buckets:
            await self._on_device(lambda r=rows, k=chunk: self._device.compile(r, k))
            self._compiled += 1
        log.info("compiled %d shapes in %.1f s", self._compiled, time.monotonic() - started)
        self._wake.set()

    def _on_device(self, fn: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._worker, fn)

    async def _step(self) -> bool:
        """Do what was waiting for the end of a call, then one call; False if there was none."""
        todo, self._between = self._between, []
        for fn in todo:
            fn()
        served = self.served
        if self.paused or served is None or self._compiled < len(self._device.buckets):
            return False
        plan = self.scheduler.plan()
        if plan is None:
            return False
        self._call_started = time.monotonic()
        begun, sampled = time.monotonic_ns(), self.scheduler.counters.generated_tokens
        try:
            ids, logprobs = await self._on_device(
                lambda: self._device.run(served.params, plan.batch)
            )
        except Exception as e:  # the device gave up on a call: its requests end, the engine goes on
            log.exception("device call failed")
            self.scheduler.fail(plan, f"device call failed: {e}")
            await self._clear_cache()
        else:
            if not self.scheduler.apply(plan, ids, logprobs, served.version):
                log.error("weights %s give logprobs that are not finite", served.version)
                await self._clear_cache()
        finally:
            self.device_seconds += time.monotonic() - self._call_started
            self._call_started = None
            sampled = self.scheduler.counters.generated_tokens - sampled
            prefill = plan.batch.tokens.shape[1] > 1
            read = sum(plan.counts) if prefill else 0
            self.trail.add(begun, len(plan.rows), sampled + read, prefill)
        return True

    async def _clear_cache(self) -> None:
        """Start over with an empty cache; what was running is computed anew."""
        self.scheduler.retract()
        self.scheduler.new_epoch()
        await self._on_device(self._device.clear)

    def submit(self, request: Request) -> None:
        """Queue a request; its `notify` reports progress."""
        self.scheduler.add(request)
        self._wake.set()

    def abort(self, rid: str | None, message: str = "aborted") -> int:
        """Abort the requests whose id begins with `rid` (None: all), as SGLang does; count them."""
        hit = [r for r in self.scheduler.live() if rid is None or r.rid.startswith(rid)]
        for request in hit:
            self.scheduler.abort(request, message)
        return len(hit)

    async def pause(self, mode: str) -> None:
        """Stop after the current call. Running requests are aborted, retracted or kept in place."""

        def act() -> None:
            self.paused = True
            if mode == "abort":
                self.abort(None, "generation was paused")
            elif mode == "retract":
                self.scheduler.retract()

        await self._do_between(act)

    def resume(self) -> None:
        """End a pause."""
        self.paused = False
        self._wake.set()

    async def flush(self) -> bool:
        """Drop all cached prefixes; False if requests are running."""

        def act() -> bool:
            idle = not self.scheduler.running
            if idle:
                self.scheduler.slots.forget()
            return idle

        return await self._do_between(act)

    async def load(self, path: str, version: str) -> Served:
        """Read weights and swap them in between two calls; those in use stay if anything is wrong.

        Raises WeightsError for a directory that is torn or holds another model.
        """
        async with self._loading:
            served = await asyncio.to_thread(self._read, path, version)
            await self._do_between(lambda: self._swap(served))
        log.info("serving weights %s from %s", version, path)
        return served

    def _read(self, path: str, version: str) -> Served:
        loaded = weights.load(path)
        if dataclasses.replace(loaded.cfg, max_context=self.cfg.max_context) != self.cfg:
            raise weights.WeightsError(f"load {path}: config.json describes another model")
        try:
            params = self._device.put(loaded.params)
        except ValueError as e:
            raise weights.WeightsError(f"load {path}: {e}") from e
        return Served(params, path, version, loaded.sha256)

    def _swap(self, served: Served) -> None:
        self.served = served
        self.scheduler.new_epoch()

    async def _do_between(self, fn: Callable[[], T]) -> T:
        """Run `fn` when no call is in flight."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def act() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(fn())
            except Exception as e:
                done.set_exception(e)

        self._between.append(act)
        self._wake.set()
        return await done

    def unready(self) -> str | None:
        """Say why the engine cannot generate yet or any more; None if it can."""
        if self.served is None:
            return "no weights"
        if self._compiled < len(self._device.buckets):
            return f"compiling, {self._compiled} of {len(self._device.buckets)} shapes done"
        if self._call_started is not None and time.monotonic() - self._call_started > 60:
            return "a device call has been running for over a minute"
        return None
