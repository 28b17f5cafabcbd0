"""A small, faithful bridge for tests: same frames, a real memfd, real descriptor passing.

It is as hostile as the protocol allows: the moment a RELEASE arrives, the slot is overwritten.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from headrace.digest import crc32c
from headrace.frames import HEADER, MAGIC, Type

GARBAGE = 0xAB


@dataclass
class FakeBatch:
    arrays: dict[str, np.ndarray]
    layout: str = "padded"
    meta: dict[str, Any] = field(default_factory=dict)


Source = Callable[[int], FakeBatch | None]


class FakeBridge:
    """Serves `source(step)` for step 1, 2, ... until it returns None; one client after another.

    `frames` records what clients sent. `refuse` maps a frame type to the ERROR text it gets.
    `before_answer(type, body)` runs on the server's thread before each answer. `stalls` are the
    stall notices that come before the answer to the NEXT of a step, `end` is what END says.
    """

    def __init__(
        self,
        where: Path,
        source: Source,
        *,
        slots: int = 2,
        slot_bytes: int = 1 << 20,
        tcp: bool = False,
        welcome: Mapping[str, Any] | None = None,
        refuse: Mapping[Type, str] | None = None,
        before_answer: Callable[[Type, dict[str, Any]], None] | None = None,
        stalls: Mapping[int, list[dict[str, Any]]] | None = None,
        end: Mapping[str, Any] | None = None,
    ) -> None:
        self.source, self.slots, self.slot_bytes = source, slots, slot_bytes
        self.welcome = dict(welcome or {})
        self.refuse = dict(refuse or {})
        self.before_answer = before_answer
        self.stalls = dict(stalls or {})
        self.end = dict(end or {"reason": "complete"})
        self.frames: list[tuple[Type, dict[str, Any]]] = []
        self.notices: list[dict[str, Any]] = []
        self.incarnation = 0
        self.errors: list[BaseException] = []
        if tcp:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.address = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            path = str(where / "feed.sock")
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(path)
            self._listener.listen()
            self.address = f"unix:{path}"
        self._conn: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10 if kind is None else 0)  # until it has read the client's BYE
        self.hang_up()
        self._thread.join(10)
        if kind is None:
            assert not self._thread.is_alive()
            assert not self.errors, self.errors

    def hang_up(self) -> None:
        if self._conn is not None:
            with contextlib.suppress(OSError):
                self._conn.shutdown(socket.SHUT_RDWR)

    def sent(self, type_: Type) -> list[dict[str, Any]]:
        return [body for t, body in self.frames if t is type_]

    def _serve(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self._conn = conn
            try:
                _Session(self, conn).run()
            except (ConnectionError, OSError):
                pass
            except BaseException as err:  # reported by __exit__
                self.errors.append(err)
            finally:
                conn.close()


class _Session:
    def __init__(self, bridge: FakeBridge, conn: socket.socket) -> None:
        self.bridge, self.conn = bridge, conn
        self.ring: mmap.mmap | None = None
        self.free: list[int] = []
        self.held: dict[int, int] = {}
        self.step = 0
        self.waiting: int | None = None

    def run(self) -> None:
        type_, hello = self._receive()
        assert type_ is Type.HELLO
        self._greet(hello)
        while True:
            type_, body = self._receive()
            if type_ is Type.BYE:
                return
            self._handle(type_, body)

    def _greet(self, hello: dict[str, Any]) -> None:
        b = self.bridge
        if Type.HELLO in b.refuse:
            self._send(Type.ERROR, {"message": b.refuse[Type.HELLO]})
            return
        b.incarnation += 1
        self.step = hello["checkpoint_step"] or 0
        welcome = {
            "v": 1,
            "run": "test",
            "start_step": self.step + 1,
            "incarnation": b.incarnation,
            "transport": hello["transport"],
            "slots": b.slots,
            "slot_bytes": b.slot_bytes,
            "trainer": {},
            "model": {},
            "max_steps": 0,
            "paths": {"weights": "", "checkpoints": "", "demos": None},
        } | b.welcome
        if hello["transport"] != "memfd":
            self._send(Type.WELCOME, welcome)
            return
        fd = os.memfd_create("ring")
        os.ftruncate(fd, b.slots * b.slot_bytes)
        self.ring = mmap.mmap(fd, b.slots * b.slot_bytes)
        self.free = list(range(b.slots))
        socket.send_fds(self.conn, [_encode(Type.WELCOME, welcome)], [fd])
        os.close(fd)

    def _handle(self, type_: Type, body: dict[str, Any]) -> None:
        b = self.bridge
        if b.before_answer:
            b.before_answer(type_, body)
        if type_ in b.refuse:
            self._send(Type.ERROR, {"id": body["id"], "message": b.refuse[type_]})
        elif type_ is Type.NEXT:
            assert self.waiting is None, "two NEXT at once"
            self.waiting = body["id"]
        elif type_ is Type.RELEASE:
            self._release(body)
        elif type_ is Type.NOTICE:
            b.notices.append(body)
        elif type_ is Type.WAIT_WEIGHTS:
            self._send(Type.OK, {"id": body["id"], "acked": ["e1"], "missing": []})
        else:
            self._send(Type.OK, {"id": body["id"]})
        if self.waiting is not None and (self.ring is None or self.free):
            self._next(self.waiting)

    def _release(self, body: dict[str, Any]) -> None:
        assert self.ring is not None
        assert self.held.pop(body["slot"]) == body["step"]
        start = body["slot"] * self.bridge.slot_bytes
        self.ring[start : start + self.bridge.slot_bytes] = (
            bytes([GARBAGE]) * self.bridge.slot_bytes
        )
        self.free.append(body["slot"])

    def _next(self, id_: int) -> None:
        self.waiting = None
        for stall in self.bridge.stalls.get(self.step + 1, []):
            self._send(Type.NOTICE, {"kind": "stall", **stall})
        batch = self.bridge.source(self.step + 1)
        if batch is None:
            self._send(Type.END, {"id": id_, "steps": self.step, **self.bridge.end})
            return
        self.step += 1
        data, entries = layout(batch.arrays)
        assert len(data) <= self.bridge.slot_bytes, len(data)
        header = {
            "id": id_,
            "step": self.step,
            "ledger_seq": 100 + self.step,
            "layout": batch.layout,
            "nbytes": len(data),
            "arrays": entries,
            "digest": f"{crc32c(data):08x}",
            "slot": -1,
        } | batch.meta
        if self.ring is None:
            self._send(Type.BATCH, header, data)
            return
        slot = self.free.pop(0)
        self.held[slot] = self.step
        start = slot * self.bridge.slot_bytes
        self.ring[start : start + len(data)] = data
        self._send(Type.BATCH, {**header, "slot": slot, "offset": start})

    def _send(self, type_: Type, body: Mapping[str, Any], data: bytes = b"") -> None:
        self.conn.sendall(_encode(type_, body, data))

    def _receive(self) -> tuple[Type, dict[str, Any]]:
        header = self._exactly(HEADER.size)
        magic, type_, _, json_len, _, data_len = HEADER.unpack(header)
        assert magic == MAGIC
        assert data_len == 0
        body = json.loads(self._exactly(json_len))
        self.bridge.frames.append((Type(type_), body))
        return Type(type_), body

    def _exactly(self, n: int) -> bytes:
        out = b""
        while len(out) < n:
            part = self.conn.recv(n - len(out))
            if not part:
                raise ConnectionError("client hung up")
            out += part
        return out


def _encode(type_: Type, body: Mapping[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(body).encode()
    return HEADER.pack(MAGIC, type_, 0, len(text), 0, len(data)) + text + data


def layout(arrays: Mapping[str, np.ndarray]) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the bytes of a slot and the header entries of its arrays, each 64-byte aligned."""
    data, entries = bytearray(), []
    for name, a in arrays.items():
        data += bytes(-len(data) % 64)
        dtype = {"i": "<i4", "f": "<f4", "u": "|u1"}[a.dtype.kind]
        entry = {"name": name, "dtype": dtype, "shape": list(a.shape), "offset": len(data)}
        entries.append(entry)
        data += a.astype(dtype).tobytes()
    data += bytes(-len(data) % 64)
    return bytes(data), entries
