"""The trainer's side of the feed: batches in, commits and weights out.

::

    with headrace.connect("unix:/run/x/feed.sock", checkpoint_step=40) as feed:
        for batch in feed:                                  # steps 41, 42, ...
            params, metrics = train(params, batch.as_jax())
            feed.commit(batch.step, metrics)
        print(feed.end.reason, feed.end.text)               # complete, no_producers, ...

While a batch does not come, `Feed.on_stall` is told why, and `Feed.last_stall` has the newest word.

What the loop does between batches is seen by name in traces: ``with feed.span("my phase"): ...``.

A `Feed` belongs to one thread; only `Feed.interrupt` may be called from elsewhere. Requests whose
answer carries nothing are pipelined: the call returns once the frame is sent, and a refusal is
raised by the next call.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import math
import mmap
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np

from headrace.batch import Batch, Lease
from headrace.errors import Disconnected, FeedError, ProtocolError, RunEnded, SlotsHeld
from headrace.frames import Frame, Stream, Type
from headrace.spans import Clock, Recorder
from headrace.stalls import End, EndReason, Stalled
from headrace.telling import Teller

_log = logging.getLogger("headrace.feed")

_HOLD_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 10.0
_BYE_TIMEOUT_S = 2.0
_WAIT_LOOK_S = 1.0
_WAIT_PIECE_S = 5.0
"""A long wait is told of in pieces, so that whoever watches sees it before it ends."""


@dataclass(frozen=True)
class Paths:
    """Directories the run uses; `demos` is a JSONL file of demonstrations, if there is one."""

    weights: str
    checkpoints: str
    demos: str | None


@dataclass(frozen=True)
class FeedConfig:
    """What the bridge said when the feed opened.

    `trainer` and `model` are those sections of the run's recipe, as they are. The first batch will
    be that of `start_step`; `max_steps` is the last (0: no limit). `incarnation` counts the
    trainers that this run has seen.
    """

    run: str
    start_step: int
    max_steps: int
    incarnation: int
    trainer: Mapping[str, Any]
    model: Mapping[str, Any]
    paths: Paths
    transport: str
    slots: int
    slot_bytes: int
    spans: int = 0
    """How many spans the bridge takes at a time; 0: none, it is older than they are."""

    @classmethod
    def from_welcome(cls, body: Mapping[str, Any]) -> FeedConfig:
        """Read a WELCOME body. Raises `ProtocolError`."""
        if body.get("v") != 1:
            raise ProtocolError(f"bridge speaks protocol {body.get('v')!r}, this client speaks 1")
        try:
            paths = body.get("paths") or {}
            return cls(
                run=str(body["run"]),
                start_step=int(body["start_step"]),
                max_steps=int(body.get("max_steps") or 0),
                incarnation=int(body.get("incarnation") or 0),
                trainer=dict(body.get("trainer") or {}),
                model=dict(body.get("model") or {}),
                paths=Paths(
                    str(paths.get("weights") or ""),
                    str(paths.get("checkpoints") or ""),
                    paths.get("demos") or None,
                ),
                transport=str(body["transport"]),
                slots=int(body.get("slots") or 0),
                slot_bytes=int(body["slot_bytes"]),
                spans=max(0, int(body.get("spans") or 0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise ProtocolError(f"WELCOME is malformed: {err!r}") from err


@dataclass(frozen=True)
class WeightAcks:
    """Which engines serve a version, and which of those asked for do not (yet)."""

    acked: tuple[str, ...]
    missing: tuple[str, ...]
    timed_out: bool


class Feed:
    """An open feed; made by `connect`. Iterate over it, or call `next`."""

    def __init__(
        self,
        stream: Stream,
        config: FeedConfig,
        ring: mmap.mmap | None,
        *,
        verify: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.end: End | None = None
        """Why iteration ended; None while it has not."""
        self.last_stall: Stalled | None = None
        """What the run waits for, if something holds it up; the next batch clears it."""
        self.on_stall: Callable[[Stalled], None] = _log_stall
        """Called when the bridge says what holds the run up, and again while that lasts."""
        self.wait_s = 0.0
        """Seconds the last `next` waited for its batch."""
        self.on_notice: Callable[[dict[str, Any]], None] = _log_notice
        """Called with the body of each NOTICE of the bridge, stalls included."""
        self.spans = Recorder(min(config.spans, 4096))
        """What this process did; the feed sends it along about once a second."""
        self._stream = stream
        self._ring = ring
        self._verify = verify
        self._ids = itertools.count(1)
        clock = clock or Clock(same_machine=False)
        self._teller = Teller(self.spans, stream, config.spans, clock)
        self._unanswered: dict[int, str] = {}
        self._refusals: list[str] = []
        self._leases: list[Lease] = []
        self._batch: Batch | None = None
        self._next_id: int | None = None
        self._early: Frame | None = None  # answer to NEXT that came while another was awaited
        self._closed = False
        self._interrupted = False
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_w, False)

    # --- batches -----------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        try:
            return self.next()
        except RunEnded:
            raise StopIteration from None

    def next(self) -> Batch:
        """Return the next batch, waiting for it as long as it takes; releases the one before.

        Raises `RunEnded` when there is none, `SlotsHeld` if the caller keeps references to every
        slot, `Disconnected` if the bridge is gone.
        """
        if self._interrupted:
            self._end(End("interrupted"))
        if self.end is not None:
            raise RunEnded(self.end.reason, self.end.steps, self.end.text)
        begun = time.monotonic()
        with self.spans.span("wait for batch") as args:
            frame = self._await_batch()
            if frame is not None and frame.type is Type.BATCH:
                args["step"] = frame.body.get("step")
        if frame is None:
            self._end(End("interrupted"))
        self._next_id = self._early = None
        if frame.type is Type.END:
            self._end(End.from_body(frame.body))
        if frame.type is not Type.BATCH:
            raise ProtocolError(f"answer to NEXT is {frame.type.name}")
        self._batch = self._open(frame)
        self.last_stall = None
        self.wait_s = time.monotonic() - begun
        return self._batch

    def _await_batch(self) -> Frame | None:
        """Return the answer to a NEXT, None when interrupted."""
        if self.config.spans:
            self.spans.watch_compiles()
        self._retire()
        self._teller.tell()
        if self._next_id is None:
            self._wait_for_slot()
            self._next_id = self._ask(Type.NEXT, {})
        pause = _WAIT_LOOK_S if self.config.spans else None
        while not self._interrupted:
            if frame := self._answer(self._next_id, wake=self._wake_r, timeout_s=pause):
                return frame
            self.spans.cut(_WAIT_PIECE_S)
            self._teller.tell()
        return None

    def interrupt(self) -> None:
        """End the iteration: a waiting or later `next` raises `RunEnded`.

        Safe in signal handlers and other threads.
        """
        self._interrupted = True
        with contextlib.suppress(OSError):  # already full of wake-ups, or closed
            os.write(self._wake_w, b"!")

    @property
    def end_reason(self) -> EndReason | None:
        """The reason of `end`."""
        return self.end.reason if self.end else None

    @property
    def end_steps(self) -> int | None:
        """The steps of `end`."""
        return self.end.steps if self.end else None

    def _end(self, end: End) -> NoReturn:
        self.end = end
        raise RunEnded(end.reason, end.steps, end.text)

    def _open(self, frame: Frame) -> Batch:
        memory, slot = self._memory(frame)
        batch = Batch(frame.body, memory, self._reclaim)
        if slot is not None:
            self._leases.append(Lease(memory, slot, batch.step))
        if self._verify:
            batch.verify()
        return batch

    def _memory(self, frame: Frame) -> tuple[np.ndarray, int | None]:
        if self._ring is None:
            frame.data.flags.writeable = False
            return frame.data, None
        try:
            slot, start, nbytes = (int(frame.body[k]) for k in ("slot", "offset", "nbytes"))
        except (KeyError, TypeError, ValueError) as err:
            raise ProtocolError(f"batch names no slot: {err!r}") from err
        inside = 0 <= slot < self.config.slots and start >= 0 and nbytes >= 0
        if not inside or nbytes > self.config.slot_bytes or start + nbytes > len(self._ring):
            raise ProtocolError(f"slot {slot} at {start}, {nbytes} bytes, is outside the ring")
        if any(lease.slot == slot for lease in self._leases):
            raise ProtocolError(f"bridge reused slot {slot} before it was released")
        return np.frombuffer(self._ring, np.uint8, nbytes, start), slot

    def _retire(self) -> None:
        if self._batch is not None:
            self._batch.release()
            self._batch = None

    def _reclaim(self) -> None:
        """Send RELEASE for each slot that nothing refers to any more."""
        for lease in [x for x in self._leases if not x.held]:
            self._leases.remove(lease)
            if not self._closed:
                self._stream.send(Type.RELEASE, {"slot": lease.slot, "step": lease.step})

    def _wait_for_slot(self) -> None:
        """Wait until fewer slots are held than exist: computations end, then JAX lets go."""
        deadline, pause = time.monotonic() + _HOLD_TIMEOUT_S, 0.0005
        self._reclaim()
        while self._ring is not None and len(self._leases) >= self.config.slots:
            gc.collect()
            self._reclaim()
            if time.monotonic() > deadline:
                steps = ", ".join(str(x.step) for x in self._leases)
                raise SlotsHeld(
                    f"all {self.config.slots} slots are held by arrays of steps {steps}: drop the"
                    " views, or copy (as_jax does), or call batch.release(after=outputs)"
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    # --- what the trainer reports ------------------------------------------------------------

    def commit(
        self,
        step: int,
        metrics: Mapping[str, float] | None = None,
        *,
        train_s: float = 0.0,
        wait_s: float | None = None,
        tokens: int = 0,
        wait: bool = False,
    ) -> None:
        """Say that optimizer step `step` is done; `wait` waits for the bridge's OK.

        `metrics` are numbers; those that are not finite are left out and counted as "nonfinite".
        Where JAX tells of its compilations, "compiles" and "compile_seconds" since the last commit
        are added.
        """
        metrics = self._teller.compile_metrics() | _finite(metrics or {})
        self._report(
            Type.COMMIT,
            {
                "step": int(step),
                "metrics": metrics,
                "train_s": float(train_s),
                "wait_s": float(self.wait_s if wait_s is None else wait_s),
                "tokens": int(tokens),
            },
            wait,
        )
        self._teller.tell()

    def checkpointed(self, step: int, path: str | os.PathLike[str], *, wait: bool = True) -> None:
        """Say that a durable checkpoint at `path` covers `step`: the log below may be purged."""
        self._report(Type.CHECKPOINTED, {"step": int(step), "path": os.fspath(path)}, wait)

    def publish_weights(
        self,
        version: int,
        step: int,
        dir: str | os.PathLike[str],
        files: Iterable[Mapping[str, Any]],
        *,
        format: str = "safetensors",
        wait: bool = False,
    ) -> None:
        """Announce policy `version`: complete, durable files (name, bytes, sha256) in `dir`."""
        body = {"version": int(version), "step": int(step), "dir": os.fspath(dir)}
        body |= {"format": format, "files": [dict(f) for f in files]}
        self._report(Type.WEIGHTS, body, wait)

    def wait_weights(self, version: int, need: str = "all", timeout_s: float = 30.0) -> WeightAcks:
        """Wait until `need` ("none", "quorum", "all") of the engines serve `version`.

        A time-out is not an error: see `WeightAcks.timed_out`.
        """
        body = {"version": int(version), "need": need, "timeout_s": float(timeout_s)}
        answer = self._ok(self._ask(Type.WAIT_WEIGHTS, body, "wait weights"))
        return WeightAcks(
            tuple(answer.get("acked") or ()),
            tuple(answer.get("missing") or ()),
            bool(answer.get("timed_out")),
        )

    def span(self, name: str, **args: Any) -> contextlib.AbstractContextManager[dict[str, Any]]:
        """Name what the body of a `with` does, for traces: a phase of the training loop.

        One inside another interrupts it. `args` are up to three numbers; the dict that the `with`
        gives takes what is known only later.
        """
        return self.spans.span(name, **args)

    def notice(self, kind: str, text: str = "", **fields: Any) -> None:
        """Send a remark for people ("log", "progress", ...); it has no answer."""
        self._stream.send(Type.NOTICE, {"kind": kind, "text": text, **fields})
        self._poll()
        self._teller.tell()

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait for the answers of everything pipelined so far. Raises `FeedError` on a refusal."""
        for id_ in [i for i in self._unanswered if i != self._next_id]:
            if id_ in self._unanswered and self._answer(id_, timeout_s=timeout_s) is None:
                raise Disconnected(f"bridge did not answer within {timeout_s:g} s")
        self._raise_refusals()

    def close(self, reason: str = "done") -> None:
        """Say BYE and close; twice is harmless. Arrays already handed out stay valid."""
        if self._closed:
            return
        self._retire()
        self._teller.tell(now=True)
        self._closed = True
        self.spans.close()
        try:
            self._stream.send(Type.BYE, {"reason": reason})
        except FeedError as err:
            _log.debug("say bye: %s", err)
        self._stream.finish(_BYE_TIMEOUT_S)
        os.close(self._wake_r)
        os.close(self._wake_w)
        self._wake_w = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush(_CLOSE_TIMEOUT_S)
        finally:
            self.close("done" if err is None else f"{type(err).__name__}: {err}")

    # --- requests and answers ----------------------------------------------------------------

    def _report(self, type_: Type, body: Mapping[str, Any], wait: bool) -> None:
        id_ = self._ask(type_, body, f"{type_.name.lower()} {body['step']}")
        if wait:
            self._ok(id_)

    def _ask(self, type_: Type, body: Mapping[str, Any], what: str = "next") -> int:
        self._reclaim()
        self._poll()
        self._raise_refusals()
        id_ = next(self._ids)
        self._stream.send(type_, {"id": id_, **body})
        self._unanswered[id_] = what
        return id_

    def _ok(self, id_: int) -> dict[str, Any]:
        frame = self._answer(id_)
        if frame is None or frame.type is not Type.OK:
            raise ProtocolError(f"bridge answered {frame.type.name if frame else 'nothing'}")
        self._raise_refusals()
        return frame.body

    def _answer(
        self, id_: int, *, wake: int | None = None, timeout_s: float | None = None
    ) -> Frame | None:
        """Return the answer to request `id_`, or None after a wake-up or time-out."""
        if self._early is not None and id_ == self._next_id:
            return self._early
        while self._stream.readable(timeout_s, wake):
            frame = self._stream.receive()
            if self._take(frame) == id_:
                if frame.type is Type.ERROR:
                    self._raise_refusals()
                return frame
        return None

    def _poll(self) -> None:
        """Take what has arrived without waiting, so that pipelined answers never pile up."""
        while (self._unanswered or self._teller.awaits) and self._stream.readable(0):
            self._take(self._stream.receive())

    def _take(self, frame: Frame) -> int | None:
        """Note one received frame; return the id of the request it answers, None for a notice."""
        if frame.type is Type.NOTICE:
            self._notice(frame.body)
            return None
        if self._teller.takes(frame):
            return None
        id_ = frame.body.get("id")
        what = self._unanswered.pop(id_, None) if isinstance(id_, int) else None
        if frame.type is Type.ERROR:
            text = str(frame.body.get("message") or "refused")
            self._refusals.append(f"{what}: {text}" if what else text)
            if what is None:
                self._raise_refusals()
        elif what is None:
            raise ProtocolError(f"{frame.type.name} answers no open request (id {id_!r})")
        if id_ == self._next_id:
            self._early = None if frame.type is Type.ERROR else frame
            self._next_id = None if frame.type is Type.ERROR else id_
        return id_

    def _notice(self, body: dict[str, Any]) -> None:
        if body.get("kind") == "stall":
            self.last_stall = Stalled.from_notice(body)
            if self.last_stall is not None:
                self.on_stall(self.last_stall)
        self.on_notice(body)

    def _raise_refusals(self) -> None:
        if self._refusals:
            text = "; ".join(self._refusals)
            self._refusals.clear()
            raise FeedError(f"bridge refused {text}")


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    numbers = {name: float(value) for name, value in metrics.items()}
    kept = {name: value for name, value in numbers.items() if math.isfinite(value)}
    if len(kept) < len(numbers):
        kept["nonfinite"] = float(len(numbers) - len(kept))
    return kept


def _log_stall(stall: Stalled) -> None:
    _log.warning("stalled for %.0f s (%s): %s", stall.since_s, stall.code, stall.text)


def _log_notice(body: dict[str, Any]) -> None:
    if body.get("kind") == "stall" and body.get("code"):
        return  # on_stall has it
    _log.info("%s: %s", body.get("kind", "notice"), body.get("text", body))
