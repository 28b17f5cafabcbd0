"""One training batch: named arrays over a slot of the shared ring, and when the slot goes back.

A slot may be overwritten as soon as it is released, and JAX reads memory later than it seems to: on
CPU `jax.device_put` aliases aligned memory whatever its flags say, and a numpy view given to a
jitted call is read after the call returned. Therefore a slot is released only when *nothing refers
to its memory any more*: no view, no aliasing JAX array, no computation in flight (JAX keeps a
reference to each host buffer that it still has to read). Asking for the next batch drops the
batch's own references; what the caller still holds delays the release, never corrupts it.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.digest import crc32c
from headrace.errors import FeedError, ProtocolError
from headrace.frames import ALIGNMENT, aligned_empty

DTYPES = {"<i4": np.dtype("<i4"), "<f4": np.dtype("<f4"), "|u1": np.dtype("u1")}


@dataclass(frozen=True)
class Group:
    """Rows `first` to `first + count` belong to the group `name`."""

    name: str
    first: int
    count: int
    reward_mean: float


class Lease:
    """The memory of one slot while the client may read it; knows when nobody can any more."""

    def __init__(self, memory: np.ndarray, slot: int, step: int) -> None:
        self.slot = slot
        self.step = step
        self._memory = weakref.ref(memory)

    @property
    def held(self) -> bool:
        """Whether an array or a running computation still refers to the memory."""
        return self._memory() is not None


class Batch:
    """The batch of optimizer step `step`: arrays by attribute (`batch.tokens`) or by name.

    Arrays are read-only numpy views of the slot, no copy; which there are depends on `layout`, see
    the protocol. `rows` counts real rows (shapes may be padded), `token_count` real tokens,
    `staleness` has "mean" and "max" in policy versions, `ledger_seq` its place in the ledger.
    """

    def __init__(
        self, header: Mapping[str, Any], memory: np.ndarray, on_release: Callable[[], None]
    ) -> None:
        self._memory: np.ndarray | None = memory
        self._on_release = on_release
        self._aliases: list[weakref.ref[Any]] = []
        try:
            self.step = int(header["step"])
            self.layout = str(header["layout"])
            self.ledger_seq = int(header.get("ledger_seq", 0))
            self.rows = int(header.get("rows", 0))
            self.token_count = int(header.get("tokens", 0))
            self.reward_mean = float(header.get("reward_mean") or 0.0)
            self.digest = str(header.get("digest") or "")
            self.staleness: Mapping[str, float] = dict(header.get("staleness") or {})
            self.groups = tuple(_groups(header.get("groups") or ()))
            self._arrays = {str(a["name"]): _view(a, memory) for a in header["arrays"]}
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise ProtocolError(f"batch header is malformed: {err!r}") from err

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return all arrays by name. Raises `FeedError` once the batch was released."""
        if self._memory is None:
            raise FeedError(f"batch of step {self.step} was released: take what you need before")
        return self._arrays

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name not in self._arrays:
            raise AttributeError(f"batch has no array {name!r}")
        return self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def as_jax(
        self, sharding: Any = None, *, names: Iterable[str] | None = None, copy: bool = True
    ) -> dict[str, Any]:
        """Return arrays (all, or `names`) as JAX arrays, placed by `sharding` if one is given.

        By default they are copies, valid for ever. With ``copy=False`` they alias the slot where
        the backend allows it (CPU): free of charge, and the slot is held until they are deleted,
        which ``release(after=outputs)`` does.
        """
        import jax

        out = {}
        for name in self.arrays if names is None else names:
            view = self.arrays[name]
            out[name] = jax.device_put(_copy(view) if copy else view, sharding)
            if not copy:
                self._aliases.append(weakref.ref(out[name]))
        return out

    def release(self, after: Any = None) -> None:
        """Give the slot back, as soon as nothing refers to its memory; twice is harmless.

        `after` is any pytree of JAX arrays computed from this batch: the call waits until they are
        ready, then deletes the arrays that ``as_jax(copy=False)`` handed out, so that the slot
        can go back at once. Numpy views that the caller keeps still delay it.
        """
        if after is not None:
            import jax

            jax.block_until_ready(after)
            for ref in self._aliases:
                if (alias := ref()) is not None:
                    alias.delete()
        self._aliases = []
        if self._memory is not None:
            self._memory = None
            self._arrays = dict.fromkeys(self._arrays, np.empty(0))
            self._on_release()

    def verify(self) -> None:
        """Check the slot's bytes against the batch's digest. Raises `ProtocolError`."""
        if self._memory is None:
            raise FeedError(f"batch of step {self.step} was released")
        found = f"{crc32c(self._memory):08x}"
        if self.digest and found != self.digest.lower().removeprefix("crc32c:"):
            raise ProtocolError(f"batch of step {self.step}: digest {found}, not {self.digest}")


def _groups(entries: Iterable[Mapping[str, Any]]) -> Iterator[Group]:
    for e in entries:
        first, count = e["rows"]
        yield Group(str(e["group"]), int(first), int(count), float(e.get("reward_mean") or 0.0))


def _view(entry: Mapping[str, Any], memory: np.ndarray) -> np.ndarray:
    name, shape, start = entry["name"], tuple(entry["shape"]), int(entry["offset"])
    dtype = DTYPES.get(str(entry["dtype"]))
    if dtype is None:
        raise ProtocolError(f"array {name!r} has dtype {entry['dtype']!r}")
    if start % ALIGNMENT or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ProtocolError(f"array {name!r} has offset {start}, shape {shape}")
    nbytes = math.prod(shape) * dtype.itemsize
    if start < 0 or start + nbytes > len(memory):
        raise ProtocolError(f"array {name!r} ends {start + nbytes - len(memory)} bytes too late")
    return memory[start : start + nbytes].view(dtype).reshape(shape)


def _copy(view: np.ndarray) -> np.ndarray:
    """Return a private copy in aligned memory, which JAX then takes without copying it again."""
    out = aligned_empty(view.nbytes).view(view.dtype).reshape(view.shape)
    np.copyto(out, view)
    return out
