"""The computation of a device call: append a chunk to each row, then sample and decode.

A call takes R rows of up to K new tokens each. It runs them through the model against the slot
cache and, for rows whose chunk completes what is known of the sequence, samples up to a budget of
tokens in a fused loop, so that a short action costs one dispatch.

A token is sampled with noise that depends only on the request's seed and the token's position:
neither the other rows of the batch nor where a chunk or a call ends can change it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from headrace.engine.batch import BUDGET, COUNT, LENGTH, SEED, SLOT, STOP, TOP_K
from headrace.model import Cache, ModelConfig, Params, extend, logits


def _filtered(scaled: jax.Array, top_k: jax.Array, top_p: jax.Array) -> jax.Array:
    """Mask all but the top_k largest (0 = all) and the smallest set of mass top_p, jointly."""
    descending = -jnp.sort(-scaled, axis=-1)
    probs = jax.nn.softmax(descending, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs
    rank = jnp.arange(scaled.shape[-1])
    keep = (before < top_p[:, None]) & ((rank < top_k[:, None]) | (top_k[:, None] == 0))
    least = jnp.min(jnp.where(keep, descending, jnp.inf), axis=-1, keepdims=True)
    return jnp.where(scaled >= least, scaled, -jnp.inf)


def _sample(
    scores: jax.Array, meta: jax.Array, real: jax.Array, position: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Choose one token a row from logits f32 [R, V]: ids i32 [R] and their logprobs f32 [R].

    The logprob is that of softmax(logits / temperature) before top-k and top-p, as SGLang reports
    it; temperature 0 chooses the most likely token and reports it at temperature 1.
    """
    temperature, top_p = real[:, 0], real[:, 1]
    greedy = temperature <= 0
    scaled = scores / jnp.where(greedy, 1.0, temperature)[:, None]
    top_k = meta[:, TOP_K]
    allowed = jax.lax.cond(
        jnp.any((top_k > 0) | (top_p < 1)),
        lambda: _filtered(scaled, top_k, top_p),
        lambda: scaled,
    )

    def noise(seed: jax.Array, at: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.key(seed), at)
        return jax.random.gumbel(key, scaled.shape[1:], jnp.float32)

    gumbel = jax.vmap(noise)(jax.lax.bitcast_convert_type(meta[:, SEED], jnp.uint32), position)
    ids = jnp.argmax(allowed + jnp.where(greedy[:, None], 0.0, gumbel), axis=-1).astype(jnp.int32)
    logp = jax.nn.log_softmax(scaled, axis=-1)
    return ids, jnp.take_along_axis(logp, ids[:, None], axis=-1)[:, 0]


def advance(
    params: Params,
    cache: Cache,
    meta: jax.Array,
    real: jax.Array,
    tokens: jax.Array,
    *,
    cfg: ModelConfig,
    steps: int,
) -> tuple[Cache, jax.Array, jax.Array]:
    """Append each row's chunk, then sample up to its budget: ids i32 and logprobs f32 [R, steps].

    Entries that were not sampled have id -1. A row ends at its budget or behind a stop id. The last
    token sampled is not in the cache yet: it opens the next chunk.
    """
    slots, count, budget = meta[:, SLOT], meta[:, COUNT], meta[:, BUDGET]
    x, cache = extend(params, cfg, cache, tokens, meta[:, LENGTH], slots)
    last = jnp.take_along_axis(x, jnp.maximum(count - 1, 0)[:, None, None], axis=1)[:, 0]
    length = meta[:, LENGTH] + count
    rows = meta.shape[0]
    ids0 = jnp.full((rows, steps), -1, jnp.int32)
    logp0 = jnp.zeros((rows, steps), jnp.float32)

    def sample(i, last, length, live, ids, logp):
        token, lp = _sample(logits(params, cfg, last), meta, real, length)
        ids = ids.at[:, i].set(jnp.where(live, token, -1))
        logp = logp.at[:, i].set(jnp.where(live, lp, 0.0))
        stopped = jnp.any(token[:, None] == meta[:, STOP:], axis=-1)
        return token, ids, logp, live & ~stopped & (i + 1 < budget)

    def step(state):
        i, cache, token, length, live, ids, logp = state
        x, cache = extend(params, cfg, cache, token[:, None], length, slots)
        length = length + live
        token, ids, logp, live = sample(i, x[:, 0], length, live, ids, logp)
        return i + 1, cache, token, length, live, ids, logp

    def more(state):
        return (state[0] < steps) & jnp.any(state[4])

    token, ids, logp, live = sample(0, last, length, budget > 0, ids0, logp0)
    state = (jnp.int32(1), cache, token, length, live, ids, logp)
    _, cache, _, _, _, ids, logp = jax.lax.while_loop(more, step, state)
    return cache, ids, logp
