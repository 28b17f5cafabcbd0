"""The small decoder-only transformer that the reference trainer and the reference engine share.

One file holds both ways to run it, so that the two cannot drift apart: `hidden` runs whole rows
for training, `extend` appends to a key/value cache for decoding, and both are built of the same
block. Parameters are a flat dict of float32 arrays under stable dotted names (`layers.0.attn.qkv`),
which are also their names in a weights file.

Shapes: B rows, T tokens a row, M chosen positions a row, d = d_model, H heads of D = d / H,
V = vocab_size.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp

Params = dict[str, jax.Array]
ARCHITECTURE = "headrace-decoder"
_MASKED = -1e9  # score of a position out of sight; finite, so that an empty row gives no NaN


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Sizes of a model; the fields of its `config.json`.

    `max_context` bounds prompt plus completion in the engine; the weights do not depend on it.
    """

    vocab_size: int
    d_model: int = 64
    layers: int = 2
    heads: int = 2
    d_ff: int = 256
    rope_theta: float = 1000.0
    max_context: int = 160
    pad_id: int = 0
    eos_id: int = 2
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "layers", "heads", "d_ff", "max_context"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"model config: {name} must be a positive integer, not {value!r}")
        if self.d_model % self.heads or (self.d_model // self.heads) % 2:
            raise ValueError(
                f"model config: d_model {self.d_model} does not split into {self.heads} even heads"
            )
        for name in ("pad_id", "eos_id"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value < self.vocab_size:
                raise ValueError(f"model config: {name} {value!r} is outside the vocabulary")

    @property
    def head_dim(self) -> int:
        """Size D of one attention head."""
        return self.d_model // self.heads

    def to_json(self) -> dict[str, Any]:
        """Return the object of `config.json`."""
        return {"architecture": ARCHITECTURE, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> Self:
        """Read the object of `config.json`; unknown fields are ignored.

        Raises ValueError for another architecture or a missing or impossible field.
        """
        if obj.get("architecture") != ARCHITECTURE:
            raise ValueError(
                f"model config: architecture {obj.get('architecture')!r} is not {ARCHITECTURE!r}"
            )
        if "vocab_size" not in obj:
            raise ValueError("model config: vocab_size is missing")
        known = {f.name for f in dataclasses.fields(cls)}
        return cls(**{k: v for k, v in obj.items() if k in known})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a folder's `config.json` (or that file itself). Raises ValueError if it is bad."""
        file = Path(path)
        file = file / "config.json" if file.is_dir() else file
        try:
            obj = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as e:
            raise ValueError(f"read model config {file}: {e}") from e
        if not isinstance(obj, dict):
            raise ValueError(f"read model config {file}: not a JSON object")
        return cls.from_json(obj)


def shapes(cfg: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter, in the order in which files hold them."""
    d, ff = cfg.d_model, cfg.d_ff
    out: dict[str, tuple[int, ...]] = {"embed": (cfg.vocab_size, d)}
    for i in range(cfg.layers):
        p = f"layers.{i}."
        out[p + "attn.norm"] = (d,)
        out[p + "attn.qkv"] = (d, 3 * d)
        out[p + "attn.out"] = (d, d)
        out[p + "mlp.norm"] = (d,)
        out[p + "mlp.up"] = (d, ff)
        out[p + "mlp.down"] = (ff, d)
    out["norm"] = (d,)
    out["head"] = (d, cfg.vocab_size)
    return out


def init(key: jax.Array, cfg: ModelConfig) -> Params:
    """Random parameters: norms 1, embeddings N(0, 0.02^2), matrices N(0, 1/fan_in) or less."""
    params: Params = {}
    for i, (name, shape) in enumerate(shapes(cfg).items()):
        if name.endswith("norm"):
            params[name] = jnp.ones(shape, jnp.float32)
            continue
        noise = jax.random.normal(jax.random.fold_in(key, i), shape, jnp.float32)
        params[name] = noise * _init_scale(name, cfg)
    return params


def _init_scale(name: str, cfg: ModelConfig) -> float:
    fan_in = cfg.d_model**-0.5
    if name == "embed":
        return 0.02
    if name == "head":
        return 0.5 * fan_in
    if name.endswith(("attn.out", "mlp.down")):
        return fan_in * (2 * cfg.layers) ** -0.5
    return fan_in


def hidden(
    params: Params,
    cfg: ModelConfig,
    tokens: jax.Array,
    positions: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
) -> jax.Array:
    """Run whole rows, causally: tokens i32 [B, T] -> f32 [B, T, d], before the final norm.

    `positions` [B, T] defaults to 0..T-1. With `segment_ids` [B, T] (1.. for content, 0 for
    padding) a token attends only to its own segment, so that packed sequences give what they give
    alone; without `positions` each segment then counts from 0 at its own first token.
    """
    rows, length = tokens.shape
    order = jnp.arange(length, dtype=jnp.int32)
    mask = order[None, :, None] >= order[None, None, :]
    if segment_ids is not None:
        mask = mask & (segment_ids[:, :, None] == segment_ids[:, None, :])
    if positions is None:
        positions = jnp.broadcast_to(order, (rows, length))
        if segment_ids is not None:
            positions = positions - _segment_starts(segment_ids)
    rotation = _rotation(cfg, positions)

    def attend(_: int, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return _attention(q, k, v, mask)

    return _blocks(params, cfg, tokens, rotation, attend)


def _segment_starts(segment_ids: jax.Array) -> jax.Array:
    """Index of the first token of each token's segment: [B, T] -> [B, T]."""
    index = jnp.broadcast_to(jnp.arange(segment_ids.shape[1], dtype=jnp.int32), segment_ids.shape)
    first = jnp.concatenate(
        [jnp.ones_like(segment_ids[:, :1], bool), segment_ids[:, 1:] != segment_ids[:, :-1]], axis=1
    )
    return jax.lax.cummax(jnp.where(first, index, 0), axis=1)


def logits(params: Params, cfg: ModelConfig, x: jax.Array) -> jax.Array:
    """Apply final norm and output head: hidden states [..., d] -> logits f32 [..., V]."""
    return _norm(x, params["norm"], cfg.norm_eps) @ params["head"]


def logits_at(
    params: Params,
    cfg: ModelConfig,
    tokens: jax.Array,
    idx: jax.Array,
    positions: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
) -> jax.Array:
    """Logits that predict the tokens at `idx` i32 [B, M] (those of idx - 1): f32 [B, M, V].

    The output head runs at these positions only. Padding of `idx` (0) gives position 0's logits.
    """
    x = hidden(params, cfg, tokens, positions, segment_ids)
    x = jnp.take_along_axis(x, jnp.maximum(idx - 1, 0)[..., None], axis=1)
    return logits(params, cfg, x)


def token_logprobs(
    params: Params,
    cfg: ModelConfig,
    tokens: jax.Array,
    idx: jax.Array,
    positions: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    temperature: float | jax.Array = 1.0,
) -> tuple[jax.Array, jax.Array]:
    """Log-probability of the tokens at `idx` [B, M] given those before, and the entropy in nats.

    Both f32 [B, M], of softmax(logits / temperature): what the engine reports for a token sampled
    at that temperature. Entries of `idx` that are padding (0) give finite numbers to mask out.
    """
    scaled = logits_at(params, cfg, tokens, idx, positions, segment_ids) / temperature
    logp = jax.nn.log_softmax(scaled, axis=-1)
    chosen = jnp.take_along_axis(tokens, idx, axis=1)[..., None]
    entropy = -jnp.sum(jnp.exp(logp) * logp, axis=-1)
    return jnp.take_along_axis(logp, chosen, axis=-1)[..., 0], entropy


Cache = list[jax.Array]
"""Keys and values, one array a layer: f32 [slots, 2, H, capacity, D]."""


def new_cache(cfg: ModelConfig, slots: int, capacity: int) -> Cache:
    """Return an empty cache of `slots` sequences of up to `capacity` tokens each."""
    shape = (slots, 2, cfg.heads, capacity, cfg.head_dim)
    return [jnp.zeros(shape, jnp.float32) for _ in range(cfg.layers)]


def extend(
    params: Params,
    cfg: ModelConfig,
    cache: Cache,
    tokens: jax.Array,
    lengths: jax.Array,
    slots: jax.Array,
) -> tuple[jax.Array, Cache]:
    """Append tokens i32 [R, K] to the sequences in `slots` [R], which hold `lengths` [R] tokens.

    Returns hidden states f32 [R, K, d] and the cache (donate it to keep the update in place). Rows
    may be padded at the end: what padding writes lies past the sequence's end, where nothing looks
    until real tokens have replaced it. For that the capacity must reach lengths + K.
    """
    _, chunk = tokens.shape
    positions = lengths[:, None] + jnp.arange(chunk, dtype=jnp.int32)
    mask = jnp.arange(cache[0].shape[3])[None, None, :] <= positions[:, :, None]
    written: Cache = []

    def attend(layer: int, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        written.append(_write(cache[layer], jnp.stack([k, v], axis=1), lengths, slots))
        rows = written[layer].at[slots].get(mode="promise_in_bounds")
        return _attention(q, rows[:, 0], rows[:, 1], mask)

    return _blocks(params, cfg, tokens, _rotation(cfg, positions), attend), written


def _write(store: jax.Array, new: jax.Array, lengths: jax.Array, slots: jax.Array) -> jax.Array:
    """Write new [R, 2, H, K, D] into store [slots, 2, H, capacity, D] at each row's length."""

    def one(row: jax.Array, store: jax.Array) -> jax.Array:
        window = jax.lax.dynamic_slice_in_dim(new, row, 1, axis=0)
        at = (slots[row], 0, 0, lengths[row], 0)
        return jax.lax.dynamic_update_slice(store, window, at)

    return jax.lax.fori_loop(0, new.shape[0], one, store)


Attend = Callable[[int, jax.Array, jax.Array, jax.Array], jax.Array]


def _blocks(
    params: Params,
    cfg: ModelConfig,
    tokens: jax.Array,
    rotation: tuple[jax.Array, jax.Array],
    attend: Attend,
) -> jax.Array:
    """All layers; `attend(layer, q, k, v)` maps the new tokens' [B, H, T, D] to [B, H, T, D]."""
    x = params["embed"][tokens]
    for i in range(cfg.layers):
        p = f"layers.{i}."
        qkv = _norm(x, params[p + "attn.norm"], cfg.norm_eps) @ params[p + "attn.qkv"]
        q, k, v = _heads(qkv, cfg)
        o = attend(i, _rotate(q, rotation), _rotate(k, rotation), v)
        x = x + o.swapaxes(1, 2).reshape(x.shape) @ params[p + "attn.out"]
        up = jax.nn.relu(_norm(x, params[p + "mlp.norm"], cfg.norm_eps) @ params[p + "mlp.up"])
        x = x + up @ params[p + "mlp.down"]
    return x


def _heads(qkv: jax.Array, cfg: ModelConfig) -> tuple[jax.Array, jax.Array, jax.Array]:
    """[B, T, 3d] -> three of [B, H, T, D]."""
    rows, length, _ = qkv.shape
    split = qkv.reshape(rows, length, 3, cfg.heads, cfg.head_dim).transpose(2, 0, 3, 1, 4)
    return split[0], split[1], split[2]


def _norm(x: jax.Array, weight: jax.Array, eps: float) -> jax.Array:
    """RMSNorm over the last axis."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def _rotation(cfg: ModelConfig, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines [B, 1, T, D/2] of the rotary embedding at positions [B, T]."""
    half = jnp.arange(cfg.head_dim // 2, dtype=jnp.float32) * (2.0 / cfg.head_dim)
    angle = positions[:, None, :, None].astype(jnp.float32) * cfg.rope_theta**-half
    return jnp.cos(angle), jnp.sin(angle)


def _rotate(x: jax.Array, rotation: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rotary embedding over the two halves of the last axis of x [B, H, T, D]."""
    cos, sin = rotation
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Attend with q [B, H, T, D] to k, v [B, H, S, D] where mask [B or 1, T, S] holds."""
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(mask[:, None], scores, _MASKED), axis=-1)
    return jnp.einsum("bhts,bhsd->bhtd", weights, v)
