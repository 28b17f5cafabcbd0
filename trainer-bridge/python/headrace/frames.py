"""Frames of the feed protocol: a fixed header, a JSON object, raw bytes.

All integers are little-endian::

    offset  size  field
         0     4  magic 0x31465248 ("HRF1")
         4     2  type, see `Type`
         6     2  flags, zero
         8     4  length of the JSON object in bytes, at most 16 MiB
        12     4  zero
        16     8  length of the raw bytes that follow the JSON object

Both lengths are checked against a limit before anything is allocated, so a broken or hostile peer
costs an error, never memory.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import Disconnected, ProtocolError

MAGIC = 0x31465248
HEADER = struct.Struct("<IHHIIQ")
MAX_JSON_BYTES = 16 << 20
ALIGNMENT = 64
"""Arrays start on multiples of this many bytes; JAX on CPU takes such memory without a copy."""


class Type(enum.IntEnum):
    """What a frame means; the number is the wire's."""

    HELLO = 1
    WELCOME = 2
    NEXT = 3
    BATCH = 4
    RELEASE = 5
    COMMIT = 6
    CHECKPOINTED = 7
    WEIGHTS = 8
    WAIT_WEIGHTS = 9
    OK = 10
    ERROR = 11
    END = 12
    NOTICE = 13
    BYE = 14
    SPANS = 15


@dataclass(frozen=True)
class Frame:
    """One frame. `data` is a u1 array of its raw bytes, aligned to `ALIGNMENT`; empty if none."""

    type: Type
    body: dict[str, Any]
    data: np.ndarray
    fds: tuple[int, ...] = ()


def encode(type_: Type, body: Mapping[str, Any], data_bytes: int = 0) -> bytes:
    """Return header and JSON object of a frame; `data_bytes` raw bytes are the caller's to send."""
    text = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > MAX_JSON_BYTES:
        raise ProtocolError(f"frame {type_.name} has {len(text)} bytes of JSON, over the limit")
    return HEADER.pack(MAGIC, type_, 0, len(text), 0, data_bytes) + text


def aligned_empty(nbytes: int) -> np.ndarray:
    """Return `nbytes` of uninitialised memory (u1) whose first byte is aligned to `ALIGNMENT`."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


class Stream:
    """Frames over one connected socket. Not safe for several threads.

    `timeout_s` bounds the silence of the peer in the middle of a frame or of a send; the wait for a
    frame to begin has no bound, unless `receive` is given one.
    """

    def __init__(self, sock: socket.socket, *, timeout_s: float = 60.0) -> None:
        self._sock = sock
        self._sock.settimeout(timeout_s)
        self.max_data_bytes = 0
        """Raw bytes that a received frame may carry; zero until slot sizes are known."""

    def fileno(self) -> int:
        """Return the socket's descriptor, for `select`."""
        return self._sock.fileno()

    def send(self, type_: Type, body: Mapping[str, Any]) -> None:
        """Send one frame without raw bytes. Raises `Disconnected`."""
        try:
            self._sock.sendall(encode(type_, body))
        except OSError as err:
            raise Disconnected(f"send {type_.name}: bridge is gone: {err}") from err

    def readable(self, timeout_s: float | None, wake: int | None = None) -> bool:
        """Wait until a frame begins (True), or `timeout_s` passed or `wake` is readable (False)."""
        fds = [self._sock.fileno()] + ([] if wake is None else [wake])
        ready, _, _ = select.select(fds, [], [], timeout_s)
        return self._sock.fileno() in ready

    def writable(self) -> bool:
        """Return whether the peer takes what it is sent: a send would not wait at once."""
        _, ready, _ = select.select([], [self._sock.fileno()], [], 0)
        return bool(ready)

    def receive(self, *, with_fds: bool = False) -> Frame:
        """Return the next frame; with `with_fds`, also descriptors attached to its header.

        Raises `Disconnected` at the end of the stream and `ProtocolError` for a bad frame. The
        caller owns the descriptors.
        """
        header, fds = self._header(with_fds)
        try:
            type_, json_len, data_len = self._parse(header)
            body = _parse_body(type_, bytes(self._exactly(json_len)))
            data = self._exactly(data_len) if data_len else np.empty(0, np.uint8)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return Frame(type_, body, data, fds)

    def finish(self, timeout_s: float) -> None:
        """Close after the peer has read all that was sent, or `timeout_s` passed.

        Closing at once with something unread resets the connection, which can cost the peer the
        last frames.
        """
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
            while self.readable(max(0.0, deadline - time.monotonic())):
                if not self._sock.recv(1 << 16):
                    break
        self._sock.close()

    def close(self) -> None:
        """Close the socket at once; twice is harmless."""
        self._sock.close()

    def _header(self, with_fds: bool) -> tuple[bytes, tuple[int, ...]]:
        if not with_fds:
            return bytes(self._exactly(HEADER.size)), ()
        try:
            first, fds, _, _ = socket.recv_fds(self._sock, HEADER.size, 4)
        except OSError as err:
            raise Disconnected(f"receive header: bridge is gone: {err}") from err
        if not first:
            raise Disconnected("bridge closed the connection")
        return first + bytes(self._exactly(HEADER.size - len(first))), tuple(fds)

    def _parse(self, header: bytes) -> tuple[Type, int, int]:
        magic, type_, flags, json_len, zero, data_len = HEADER.unpack(header)
        if magic != MAGIC:
            raise ProtocolError(
                f"frame starts with {magic:#010x}, not {MAGIC:#010x}: not a bridge?"
            )
        if flags or zero:
            raise ProtocolError(f"frame has unknown flags {flags:#x}/{zero:#x}")
        if json_len > MAX_JSON_BYTES or data_len > self.max_data_bytes:
            raise ProtocolError(f"frame of {json_len} + {data_len} bytes is over the limit")
        try:
            return Type(type_), json_len, data_len
        except ValueError as err:
            raise ProtocolError(f"unknown frame type {type_}") from err

    def _exactly(self, nbytes: int) -> np.ndarray:
        out = aligned_empty(nbytes)
        view, got = out.data, 0
        while got < nbytes:
            try:
                n = self._sock.recv_into(view[got:])
            except OSError as err:
                raise Disconnected(f"receive: bridge is gone: {err}") from err
            if n == 0:
                raise Disconnected("bridge closed the connection")
            got += n
        return out


def _parse_body(type_: Type, text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError as err:
        raise ProtocolError(f"frame {type_.name} is not JSON: {err}") from err
    if not isinstance(body, dict):
        raise ProtocolError(f"frame {type_.name} holds no JSON object")
    return body
