"""What runs on the device: compiled calls of a few shapes, and the slot cache they update in place.

Rows and chunk of a call come from a short list of buckets and everything else is data, so a
handful of compiled shapes serves every mix of requests.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from headrace.engine.batch import META, Batch, Sizes
from headrace.engine.decode import advance
from headrace.model import Cache, ModelConfig, Params, new_cache, shapes


class Device:
    """The compiled calls of one model and the cache they run on; for one thread at a time."""

    def __init__(self, cfg: ModelConfig, sizes: Sizes) -> None:
        self.cfg, self.sizes = cfg, sizes
        self._compiled: dict[tuple[int, int], jax.stages.Compiled] = {}
        self._cache: Cache = []
        self.clear()

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """Every (rows, chunk) that a call may have."""
        return [(r, k) for k in (self.sizes.chunk, 1) for r in self.sizes.rows]

    def clear(self) -> None:
        """Forget all cached sequences. One slot beyond those asked for serves idle rows."""
        self._cache = []  # freed before its successor is made
        sizes = self.sizes
        self._cache = new_cache(self.cfg, sizes.slots + 1, sizes.context + sizes.chunk)

    def compile(self, rows: int, chunk: int) -> None:
        """Compile the call for a bucket; takes about a second."""
        call = jax.jit(
            functools.partial(advance, cfg=self.cfg, steps=self.sizes.steps), donate_argnums=(1,)
        )

        def array(shape: tuple[int, ...], dtype: type) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, dtype)

        params = {k: array(s, np.float32) for k, s in shapes(self.cfg).items()}
        self._compiled[rows, chunk] = call.lower(
            params,
            [array(c.shape, np.float32) for c in self._cache],
            array((rows, META), np.int32),
            array((rows, 2), np.float32),
            array((rows, chunk), np.int32),
        ).compile()

    def put(self, params: dict[str, np.ndarray]) -> Params:
        """Copy parameters to the device; raises ValueError if a value is not finite."""
        for name, value in params.items():
            if not np.isfinite(value).all():
                raise ValueError(f"{name} holds values that are not finite")
        return {k: jnp.array(v, copy=True) for k, v in params.items()}

    def run(self, params: Params, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Advance a batch and wait: ids i32 (-1 = none) and logprobs f32, both [R, steps]."""
        call = self._compiled[batch.tokens.shape]
        self._cache, ids, logp = call(params, self._cache, batch.meta, batch.real, batch.tokens)
        return np.asarray(ids), np.asarray(logp)
