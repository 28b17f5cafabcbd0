"""Opening a feed: address, connection, greeting, and the map of the shared ring."""

from __future__ import annotations

import mmap
import os
import socket
import time
from typing import Any

from headrace.errors import Disconnected, FeedError, ProtocolError
from headrace.feed import Feed, FeedConfig
from headrace.frames import Frame, Stream, Type
from headrace.spans import Clock

CLIENT = "headrace-python/0.1.0"
VERSION = 1


def connect(
    address: str,
    *,
    checkpoint_step: int | None = None,
    rank: int = 0,
    world: int = 1,
    transport: str | None = None,
    token: str | None = None,
    verify: bool = False,
    timeout_s: float = 30.0,
) -> Feed:
    """Open the feed at `address`: "unix:/path" or "tcp:host:port".

    `checkpoint_step` is the step that the trainer's checkpoint holds (None: a fresh start); the
    first batch is the one after it. `rank` of `world` hosts gets its rows of each batch.
    `transport` is "memfd" (shared memory; default on a Unix socket) or "stream" (bytes on the
    socket; the only one over TCP). `token` defaults to HEADRACE_FEED_TOKEN. `verify` checks each
    batch's digest. A bridge that is not there yet is tried for `timeout_s`.

    Raises `Disconnected` if there is no bridge, `ProtocolError` if it speaks another version,
    `FeedError` with the bridge's own words if it refuses.
    """
    hello: dict[str, Any] = {
        "v": VERSION,
        "client": CLIENT,
        "checkpoint_step": checkpoint_step,
        "rank": rank,
        "world": world,
        "transport": transport or ("memfd" if address.startswith("unix:") else "stream"),
    }
    if token := token or os.environ.get("HEADRACE_FEED_TOKEN"):
        hello["token"] = token
    stream = Stream(_dial(address, timeout_s))
    try:
        clock = Clock(same_machine=address.startswith("unix:"))
        return _greet(stream, hello, verify, timeout_s, clock)
    except BaseException:
        stream.close()
        raise


def _greet(
    stream: Stream, hello: dict[str, Any], verify: bool, timeout_s: float, clock: Clock
) -> Feed:
    sent = time.time_ns()
    stream.send(Type.HELLO, hello)
    if not stream.readable(max(timeout_s, 60.0)):
        raise Disconnected("bridge accepted the connection but does not answer")
    frame = stream.receive(with_fds=True)
    clock.note(sent, time.time_ns(), frame.body.get("clock"))
    try:
        if frame.type is Type.ERROR:
            raise FeedError(f"bridge refused: {frame.body.get('message')}")
        if frame.type is not Type.WELCOME:
            raise ProtocolError(f"answer to HELLO is {frame.type.name}")
        config = FeedConfig.from_welcome(frame.body)
        ring = _map(frame, config) if config.transport == "memfd" else None
    finally:
        for fd in frame.fds:
            os.close(fd)
    stream.max_data_bytes = 0 if ring is not None else config.slot_bytes
    return Feed(stream, config, ring, verify=verify, clock=clock)


def _map(frame: Frame, config: FeedConfig) -> mmap.mmap:
    """Map the ring read-only. The size is checked: reading beyond a file's end is a SIGBUS."""
    nbytes = config.slots * config.slot_bytes
    if len(frame.fds) != 1 or nbytes <= 0:
        raise ProtocolError(
            f"WELCOME has {len(frame.fds)} descriptors for a ring of {nbytes} bytes"
        )
    if os.fstat(frame.fds[0]).st_size < nbytes:
        raise ProtocolError(f"ring is smaller than the {nbytes} bytes it should have")
    return mmap.mmap(frame.fds[0], nbytes, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)


def _dial(address: str, timeout_s: float) -> socket.socket:
    kind, _, rest = address.partition(":")
    if kind not in ("unix", "tcp") or not rest:
        raise FeedError(f"address {address!r} is neither unix:/path nor tcp:host:port")
    deadline, pause = time.monotonic() + timeout_s, 0.02
    while True:
        try:
            return _dial_unix(rest) if kind == "unix" else _dial_tcp(rest, timeout_s)
        except OSError as err:
            if time.monotonic() + pause > deadline:
                raise Disconnected(f"no bridge at {address}: {err}") from err
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def _dial_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _dial_tcp(rest: str, timeout_s: float) -> socket.socket:
    host, _, port = rest.rpartition(":")
    if not host or not port.isdigit():
        raise FeedError(f"tcp address {rest!r} is not host:port")
    sock = socket.create_connection((host.strip("[]"), int(port)), max(timeout_s, 1.0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock
