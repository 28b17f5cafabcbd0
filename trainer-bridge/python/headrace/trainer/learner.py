"""The optimizer step: gradients summed over micro-batches, then AdamW.

Supervised learning runs through the same compiled function as GRPO: with the policy's own
log-probabilities as the old ones and an advantage of 1, the gradient of the clipped ratio is that
of the negative log-likelihood. So what the warm start compiles is what GRPO needs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from headrace import losses
from headrace.losses import PolicyLoss
from headrace.model import ModelConfig, Params, token_logprobs
from headrace.trainer.rows import Micro

SUMS = (
    "loss",
    "nll",
    "entropy",
    "clip_fraction",
    "log_ratio_abs",
    "kl",
    "is_weight_mean",
    "logprob_diff_mean",
    "tokens",
)
MAXIMA = ("ratio_max", "is_weight_max", "logprob_diff_max")


class Knobs(NamedTuple):
    """What may change without compiling again; f32 scalars (0 or 1 for the two switches)."""

    own_old: float | jax.Array
    """1: the old log-probabilities are the policy's own, detached; 0: the sampler's."""
    entropy: float | jax.Array
    kl_beta: float | jax.Array
    weigh: float | jax.Array
    """1: losses are weighted by importance weights, truncated at `cap`."""
    cap: float | jax.Array


SUPERVISED = Knobs(own_old=1.0, entropy=0.0, kl_beta=0.0, weigh=0.0, cap=1.0)


class State(NamedTuple):
    """What a step changes."""

    params: Params
    optimizer: Any


class _Total(NamedTuple):
    grads: Params
    sums: jax.Array
    maxima: jax.Array


class Learner:
    """Compiled functions for one model, loss and optimizer."""

    def __init__(
        self, model: ModelConfig, loss: PolicyLoss, optimizer: optax.GradientTransformation
    ) -> None:
        self.optimizer = optimizer
        self._add = jax.jit(functools.partial(_add, model, loss), donate_argnums=1)
        self._logprobs = jax.jit(functools.partial(_logprobs, model))
        self._apply = jax.jit(self._update, donate_argnums=(0, 1))
        self._zero = jax.jit(_zero)

    def start(self, params: Params) -> State:
        """Return the state before the first step."""
        return State(params, self.optimizer.init(params))

    def with_optimizer(self, optimizer: optax.GradientTransformation) -> Learner:
        """Return a learner that shares this one's compiled gradients."""
        other = object.__new__(Learner)
        other.__dict__.update(self.__dict__)
        other.optimizer = optimizer
        other._apply = jax.jit(other._update, donate_argnums=(0, 1))
        return other

    def step(
        self,
        state: State,
        micros: Iterable[Micro],
        knobs: Knobs,
        reference: Params | None = None,
    ) -> tuple[State, dict[str, jax.Array]]:
        """Take one optimizer step; `state` is used up. Does not wait for the device.

        Returns the new state and the metrics as device scalars: see `metrics_of`.
        """
        total = self._zero(state.params)
        scalars = Knobs(*map(jnp.float32, knobs))
        for micro in micros:
            ref = micro.logprobs if reference is None else self._logprobs(reference, micro)
            total = self._add(state.params, total, micro, ref, scalars)
        params, optimizer, norm = self._apply(state.params, state.optimizer, total.grads)
        return State(params, optimizer), {
            "sums": total.sums,
            "maxima": total.maxima,
            "grad_norm": norm,
        }

    def _update(
        self, params: Params, optimizer: Any, grads: Params
    ) -> tuple[Params, Any, jax.Array]:
        updates, optimizer = self.optimizer.update(grads, optimizer, params)
        new = optax.apply_updates(params, updates)
        return new, optimizer, optax.tree.norm(grads)  # type: ignore[return-value]


def metrics_of(raw: dict[str, jax.Array]) -> dict[str, float]:
    """Wait for a step and return its metrics by name: means over sampled tokens, and maxima.

    "loss" is the objective of the whole batch, as aggregated.
    """
    host = jax.device_get(raw)
    out = dict(zip(SUMS, (float(x) for x in host["sums"]), strict=True))
    tokens = max(out["tokens"], 1.0)
    for name in SUMS:
        if name not in ("loss", "tokens"):
            out[name] /= tokens
    out |= dict(zip(MAXIMA, (float(x) for x in host["maxima"]), strict=True))
    return out | {"grad_norm": float(host["grad_norm"])}


def _zero(params: Params) -> _Total:
    grads = jax.tree.map(jnp.zeros_like, params)
    return _Total(grads, jnp.zeros(len(SUMS)), jnp.zeros(len(MAXIMA)))


def _logprobs(model: ModelConfig, params: Params, m: Micro) -> jax.Array:
    return token_logprobs(params, model, *_inputs(m))[0]


def _inputs(m: Any) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array | None]:
    return m.tokens, m.places, m.positions, m.segments


def _add(
    model: ModelConfig,
    cfg: PolicyLoss,
    params: Params,
    total: _Total,
    m: Any,
    reference: jax.Array,
    knobs: Any,
) -> _Total:
    """Add one micro-batch's gradient and statistics to `total`."""

    def objective(params: Params) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        logprobs, entropy = token_logprobs(params, model, *_inputs(m))
        return _objective(cfg, m, logprobs, entropy, reference, knobs)

    (_, (sums, maxima)), grads = jax.value_and_grad(objective, has_aux=True)(params)
    return _Total(
        jax.tree.map(jnp.add, total.grads, grads),
        total.sums + sums,
        jnp.maximum(total.maxima, maxima),
    )


def _objective(
    cfg: PolicyLoss,
    m: Any,
    logprobs: jax.Array,
    entropy: jax.Array,
    reference: jax.Array,
    knobs: Any,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    mask, own = m.mask, jax.lax.stop_gradient(logprobs)
    old = jnp.where(knobs.own_old > 0, own, m.logprobs)
    segments = None if m.segments is None else jnp.take_along_axis(m.segments, m.places, axis=1)
    token = losses.policy_loss(cfg, logprobs, old, m.advantages, mask, segments)
    diff = jnp.where(mask > 0, own - m.logprobs, 0.0)
    weight = losses.importance_weights(diff, jnp.zeros_like(diff), knobs.cap)
    kl = losses.kl_divergence(logprobs, reference, cfg.kl_mode) * mask
    each = jnp.where(knobs.weigh > 0, weight, 1.0) * token.loss
    each = each + knobs.kl_beta * kl - knobs.entropy * entropy
    loss = (each * m.weights).sum()
    stats = (-own, entropy, token.clipped, jnp.abs(token.log_ratio), kl, weight, jnp.abs(diff), 1.0)
    sums = jnp.stack([loss, *((s * mask).sum() for s in stats)])
    tops = (token.ratio, weight, jnp.abs(diff))
    return loss, (sums, jnp.stack([(t * mask).max() for t in tops]))


def adamw(
    lr: float, betas: tuple[float, ...], weight_decay: float, grad_clip: float
) -> optax.GradientTransformation:
    """Return AdamW behind a bound on the gradient's global norm (0: none)."""
    adam = optax.adamw(lr, b1=betas[0], b2=betas[1], weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(grad_clip), adam) if grad_clip else adam
