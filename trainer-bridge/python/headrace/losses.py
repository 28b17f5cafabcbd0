"""Policy losses of the GRPO family, in JAX.

Every function works on the tokens a policy sampled, as arrays of one shape [B, M]: B rows, M token
places a row. `mask` (f32 or bool) is 1 where a sampled token stands. For packed rows `segments` i32
[B, M] tells which sequence of the row each token belongs to (1.., 0 for none); otherwise a row is a
sequence.

A loss is always ``sum(weight * token_loss) / denominator``, where weight and denominator follow
from the mask alone (`token_weights`). Both may be computed once for a whole batch, which is then
cut into micro-batches in any way: the sums add up to the same loss and gradient.

Sources: PPO's clipped ratio (Schulman et al. 2017, eq. 7); GRPO (Shao et al. 2024, eq. 3);
asymmetric clip and token mean (DAPO, Yu et al. 2025, eq. 8); dual clip (Ye et al. 2020, eq. 5);
sequence-level ratio with token gradients (GSPO-token, Zheng et al. 2025, eq. 13); KL estimators k1,
k2, k3 (Schulman 2020, "Approximating KL divergence"); truncated importance sampling between sampler
and trainer (Yao et al. 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

Aggregation = Literal[
    "token-mean",
    "sequence-mean-token-mean",
    "sequence-mean-token-scale",
    "seq-mean-token-sum",
    "sequence-mean-token-sum-norm",
]
KLMode = Literal["kl", "mse_kl", "low_var_kl"]
Ratio = Literal["token", "gspo-token"]

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to this many nats either way: exp stays finite in float32."""
GSPO_LOG_RATIO_MAX = 10.0


@dataclass(frozen=True)
class PolicyLoss:
    """Which loss; static under jit.

    `clip_low`, `clip_high`: the ratio is clipped to [1 - clip_low, 1 + clip_high].
    `dual_clip`: bounds the loss of tokens with a negative advantage by ``-dual_clip * A``; None: no
    bound; else above 1. `kl_mode`: estimator of the KL to the reference. `ratio`: "token", or
    "gspo-token" for the mean log-ratio of the sequence.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None
    kl_mode: KLMode = "low_var_kl"
    ratio: Ratio = "token"

    def __post_init__(self) -> None:
        if not 0 <= self.clip_low <= 1 or self.clip_high < 0:
            raise ValueError("clip_low must be within 0..1 and clip_high not negative")
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise ValueError("dual_clip must be above 1")
        if self.kl_mode not in get_args(KLMode) or self.ratio not in get_args(Ratio):
            raise ValueError(f"unknown kl_mode {self.kl_mode!r} or ratio {self.ratio!r}")


class TokenLoss(NamedTuple):
    """Per-token results, f32 [B, M] each; only `loss` has a gradient worth taking."""

    loss: jax.Array
    ratio: jax.Array
    log_ratio: jax.Array
    clipped: jax.Array
    """1 where the clip took the gradient away."""


def policy_loss(
    cfg: PolicyLoss,
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    mask: jax.Array,
    segments: jax.Array | None = None,
) -> TokenLoss:
    """Return the clipped surrogate loss of each token.

    ``r = exp(clamp(logprobs - old_logprobs))``; ``loss = max(-A r, -A clip(r, 1-low, 1+high))``,
    and with dual clip ``min(loss, -dual_clip * A)`` where A < 0. All arguments f32 [B, M];
    `advantages` may be [B, 1]. No gradient flows into `old_logprobs` or `advantages`.
    """
    old, adv = jax.lax.stop_gradient((old_logprobs, advantages))
    diff = jnp.where(mask > 0, logprobs - old, 0.0)
    log_ratio = jnp.clip(diff, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    if cfg.ratio == "gspo-token":
        log_ratio = _sequence_log_ratio(log_ratio, logprobs, mask, segments)
    ratio = jnp.exp(log_ratio)
    plain, bounded = -adv * ratio, -adv * jnp.clip(ratio, 1 - cfg.clip_low, 1 + cfg.clip_high)
    loss, clipped = jnp.maximum(plain, bounded), bounded > plain
    if cfg.dual_clip is not None:
        ceiling = -cfg.dual_clip * adv
        over = (adv < 0) & (loss > ceiling)
        loss, clipped = jnp.where(over, ceiling, loss), clipped | over
    return TokenLoss(loss, ratio, log_ratio, clipped.astype(jnp.float32))


def _sequence_log_ratio(
    log_ratio: jax.Array, logprobs: jax.Array, mask: jax.Array, segments: jax.Array | None
) -> jax.Array:
    """GSPO-token: the sequence's mean log-ratio as value, each token's own log-prob as gradient."""
    mean = jax.lax.stop_gradient(sequence_mean(log_ratio, mask, segments))
    own = logprobs - jax.lax.stop_gradient(logprobs)
    return jnp.where(mask > 0, jnp.minimum(own + mean, GSPO_LOG_RATIO_MAX), 0.0)


def sequence_mean(x: jax.Array, mask: jax.Array, segments: jax.Array | None = None) -> jax.Array:
    """Return, at each place, the mean of x over the masked tokens of its sequence: f32 [B, M]."""
    x, m = x * mask, mask.astype(jnp.float32)
    if segments is None:
        mean = x.sum(1, keepdims=True) / jnp.maximum(m.sum(1, keepdims=True), 1.0)
        return jnp.broadcast_to(mean, x.shape)
    places = x.shape[1] + 1

    def row(x: jax.Array, m: jax.Array, ids: jax.Array) -> jax.Array:
        total = jax.ops.segment_sum(x, ids, places)
        return (total / jnp.maximum(jax.ops.segment_sum(m, ids, places), 1.0))[ids]

    return jax.vmap(row)(x, m, segments)


def kl_divergence(logprobs: jax.Array, reference: jax.Array, mode: KLMode) -> jax.Array:
    """Return an estimate of KL(policy || reference) at each sampled token, f32 [B, M].

    With ``d = reference - logprobs``: "kl" is ``-d`` (k1), "mse_kl" ``d**2 / 2`` (k2),
    "low_var_kl" ``exp(d) - d - 1`` (k3). d is clamped like a log-ratio where it is exponentiated.
    """
    d = jax.lax.stop_gradient(reference) - logprobs
    if mode == "kl":
        return -d
    if mode == "mse_kl":
        return 0.5 * jnp.square(d)
    if mode == "low_var_kl":
        d = jnp.clip(d, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
        return jnp.exp(d) - d - 1.0
    raise ValueError(f"unknown KL mode {mode!r}")


def importance_weights(
    logprobs: jax.Array, sampler_logprobs: jax.Array, cap: float | jax.Array
) -> jax.Array:
    """Return ``min(exp(clamp(logprobs - sampler_logprobs)), cap)``, detached: f32 [B, M].

    They correct for a sampler whose numbers differ from the trainer's for the same weights.
    """
    diff = jax.lax.stop_gradient(logprobs - sampler_logprobs)
    return jnp.minimum(jnp.exp(jnp.clip(diff, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)), cap)


def token_weights(
    mask: np.ndarray,
    aggregation: Aggregation,
    segments: np.ndarray | None = None,
    norm: float | None = None,
) -> tuple[np.ndarray, float]:
    """Return each token's weight, f32 [B, T], and the denominator of a whole batch (numpy).

    =============================  ==========================  ===================  =======
    aggregation                    weight of a token           denominator          at least
    =============================  ==========================  ===================  =======
    token-mean                     1                           tokens               1
    sequence-mean-token-mean       1 / tokens of its sequence  sequences            1
    sequence-mean-token-scale      1 / norm (default: T)       sequences            1
    seq-mean-token-sum             1                           sequences            1e-6
    sequence-mean-token-sum-norm   1                           norm (default: B)    1e-6
    =============================  ==========================  ===================  =======

    `sequences` counts those with at least one masked token. `segments` i32 [B, T] as above. Padding
    a batch changes the two defaults of `norm`: give one where that matters.
    """
    m = (np.asarray(mask) > 0).astype(np.float32)
    lengths, sequences = _sequence_lengths(m, segments)
    if aggregation == "token-mean":
        return m, max(float(m.sum()), 1.0)
    if aggregation == "sequence-mean-token-mean":
        return m / np.maximum(lengths, 1.0, dtype=np.float32), max(sequences, 1.0)
    if aggregation == "sequence-mean-token-scale":
        return m / np.float32(norm or m.shape[1]), max(sequences, 1.0)
    if aggregation == "seq-mean-token-sum":
        return m, max(sequences, 1e-6)
    if aggregation == "sequence-mean-token-sum-norm":
        return m, max(float(norm or m.shape[0]), 1e-6)
    raise ValueError(f"unknown aggregation {aggregation!r}: {', '.join(get_args(Aggregation))}")


def _sequence_lengths(m: np.ndarray, segments: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Return the masked length of the sequence at each place, and how many are not empty."""
    if segments is None:
        lengths = m.sum(1, keepdims=True)
        return np.broadcast_to(lengths, m.shape), float((lengths > 0).sum())
    stride = int(segments.max(initial=0)) + 1
    ids = np.where(m > 0, segments, 0) + np.arange(len(m))[:, None] * stride
    counts = np.bincount(ids.reshape(-1), weights=m.reshape(-1))
    return counts[ids].astype(np.float32), float((counts > 0).sum())


def aggregate(
    token_loss: jax.Array,
    mask: np.ndarray,
    aggregation: Aggregation,
    segments: np.ndarray | None = None,
    norm: float | None = None,
) -> jax.Array:
    """Return the scalar loss of one batch that is not cut: see `token_weights`."""
    weights, denominator = token_weights(mask, aggregation, segments, norm)
    return (token_loss * weights).sum() / denominator
