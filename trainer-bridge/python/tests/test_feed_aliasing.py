"""A slot is never overwritten under a reader, however its arrays were handed to JAX.

The bridge of these tests overwrites a slot the moment it is released. `test_jax_aliases_...` shows
that the hazard is real on this JAX: without it the others could not fail.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headrace.batch import Batch
from headrace.dial import connect
from headrace.errors import FeedError
from headrace.frames import Type
from tests.fakebridge import FakeBatch, FakeBridge

SIDE = 512
STEPS = 6


def source(step: int) -> FakeBatch | None:
    if step > STEPS:
        return None
    return FakeBatch({"x": np.full((SIDE, SIDE), step, np.float32)})


@jax.jit
def slow_then_read(x: jax.Array) -> jax.Array:
    """Multiply ones for a while, then read x: a late reader of its argument."""
    y = jnp.ones((SIDE, SIDE))
    for _ in range(8):
        y = y @ jnp.ones((SIDE, SIDE)) / SIDE
    return (x * y).sum() / (SIDE * SIDE)


def view(batch: Batch) -> Any:
    return slow_then_read(batch.x)


def asarray(batch: Batch) -> Any:
    return slow_then_read(jnp.asarray(batch.x))


def device_put(batch: Batch) -> Any:
    return slow_then_read(jax.device_put(batch.x))


def copied(batch: Batch) -> Any:
    return slow_then_read(batch.as_jax()["x"])


def aliased(batch: Batch) -> Any:
    return slow_then_read(batch.as_jax(copy=False)["x"])


def aliased_sharded(batch: Batch) -> Any:
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return slow_then_read(batch.as_jax(sharding, names=["x"], copy=False)["x"])


def released_after(batch: Batch) -> Any:
    out = slow_then_read(batch.as_jax(copy=False)["x"])
    batch.release(after=out)
    return out


def released_at_once(batch: Batch) -> Any:
    out = slow_then_read(batch.x)
    batch.release()
    return out


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize(
    "consume",
    [
        view,
        asarray,
        device_put,
        copied,
        aliased,
        aliased_sharded,
        released_after,
        released_at_once,
    ],
)
def test_results_are_those_of_undisturbed_slots(
    tmp_path: Path, slots: int, consume: Callable[[Batch], Any]
) -> None:
    outputs = []
    with FakeBridge(tmp_path, source, slots=slots) as bridge, connect(bridge.address) as feed:
        for batch in feed:
            outputs.append(consume(batch))
        assert [float(y) for y in outputs] == [1, 2, 3, 4, 5, 6]
    assert [b["step"] for b in bridge.sent(Type.RELEASE)][:5] == [1, 2, 3, 4, 5]


def ring() -> tuple[np.ndarray, np.ndarray]:
    """Return a writable and a read-only view of the same shared memory."""
    fd, nbytes = os.memfd_create("ring"), SIDE * SIDE * 4
    os.ftruncate(fd, nbytes)
    writable = np.frombuffer(mmap.mmap(fd, nbytes), np.float32).reshape(SIDE, SIDE)
    reader = mmap.mmap(fd, nbytes, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    os.close(fd)
    return writable, np.frombuffer(reader, np.float32).reshape(SIDE, SIDE)


def test_jax_aliases_what_device_put_is_given() -> None:
    bridge, client = ring()
    bridge[:] = 1
    x = jax.device_put(client)
    bridge[:] = 2
    assert float(x[0, 0]) == 2


def test_jit_reads_a_view_after_the_call_returned() -> None:
    bridge, client = ring()
    bridge[:] = 1
    slow_then_read(client).block_until_ready()
    out = slow_then_read(client)
    bridge[:] = 2
    assert float(out) > 1


def test_deleted_aliases_say_so(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, source, slots=1) as bridge, connect(bridge.address) as feed:
        batch = feed.next()
        x = batch.as_jax(copy=False)["x"]
        batch.release(after=slow_then_read(x))
        with pytest.raises(RuntimeError, match="deleted"):
            x.block_until_ready()
        with pytest.raises(FeedError, match="released"):
            batch.as_jax()


def test_donated_alias_does_not_write_into_the_ring(tmp_path: Path) -> None:
    double = jax.jit(lambda x: x * 2, donate_argnums=0)
    with FakeBridge(tmp_path, source, slots=2) as bridge, connect(bridge.address) as feed:
        batch = feed.next()
        y = double(batch.as_jax(copy=False)["x"])
        assert float(y[0, 0]) == 2
        assert (batch.x == 1).all()


def test_copies_outlive_the_slot(tmp_path: Path) -> None:
    with FakeBridge(tmp_path, source, slots=1) as bridge, connect(bridge.address) as feed:
        kept = [batch.as_jax()["x"] for batch in feed]
        feed.notice("log", "all released")
    assert [float(x[0, 0]) for x in kept] == [1, 2, 3, 4, 5, 6]
