"""What the trainer can be told: the `trainer` section of a run's recipe."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from headrace.losses import Aggregation, KLMode, PolicyLoss


class _Section:
    """A frozen dataclass read from JSON: unknown keys and wrong types are refused by name."""

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any], where: str = "trainer") -> Self:
        """Read a JSON object; missing keys and nulls take the default. Raises `ValueError`."""
        hints = typing.get_type_hints(cls)
        if unknown := sorted(set(obj) - set(hints)):
            raise ValueError(f"{where} has no setting {unknown[0]!r}: {', '.join(sorted(hints))}")
        given = {k: v for k, v in obj.items() if v is not None}
        return cls(**{k: _convert(hints[k], v, f"{where}.{k}") for k, v in given.items()})


def _convert(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, _Section):
        if isinstance(value, Mapping):
            return hint.from_dict(value, where)
    elif typing.get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        raise ValueError(f"{where} is {value!r}; allowed: {', '.join(get_args(hint))}")
    elif typing.get_origin(hint) is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(_convert(get_args(hint)[0], v, where) for v in value)
    elif isinstance(hint, types.UnionType):
        return _convert(get_args(hint)[0], value, where)
    elif hint is str:
        if isinstance(value, str):
            return value
    elif _is_number(value) and (hint is float or value == int(value)):
        return hint(value)
    raise ValueError(f"{where} is {value!r}, which is not what it takes")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and value is not True and value is not False


@dataclass(frozen=True)
class ImportanceSampling(_Section):
    """Truncated importance sampling between sampler and trainer.

    With mode "token" the old policy of the ratio is the trainer's own, and each token's loss is
    weighted by ``min(exp(trainer - sampler), cap)``. With "none" the sampler's log-probabilities
    are the old policy's.
    """

    mode: Literal["none", "token"] = "none"
    cap: float = 2.0


@dataclass(frozen=True)
class WaitWeights(_Section):
    """How many engines must serve new weights before the trainer goes on, and for how long."""

    need: Literal["none", "quorum", "all"] = "none"
    timeout_s: float = 30.0


@dataclass(frozen=True)
class WarmStart(_Section):
    """Supervised steps on the demonstrations before version 0; 0 steps: none."""

    steps: int = 0
    batch: int = 32
    lr: float = 3e-3


@dataclass(frozen=True)
class Profile(_Section):
    """Steps of which a JAX profile is taken, as "40" or "40..42"; empty: none."""

    steps: str = ""
    keep: int = 3
    """Profiles that stay on disk."""


@dataclass(frozen=True)
class TrainerConfig(_Section):
    """Settings of the reference trainer."""

    seed: int = 0
    """Of the initial weights and the order of the demonstrations."""
    steps: int = 0
    """Optimizer steps; 0: until the feed ends."""
    lr: float = 1e-3
    """AdamW's learning rate, constant."""
    betas: tuple[float, ...] = (0.9, 0.95)
    """AdamW's two decay rates."""
    weight_decay: float = 0.0
    """AdamW's, decoupled."""
    grad_clip: float = 1.0
    """Bound of the gradient's global norm; 0: none."""
    clip_low: float = 0.2
    clip_high: float = 0.28
    """The ratio is clipped to [1 - clip_low, 1 + clip_high]."""
    dual_clip: float = 0.0
    """Bound of the loss of negative advantages, as a multiple of them, above 1; 0: none."""
    kl_beta: float = 0.0
    """Weight of the KL to the weights training started from; 0: no reference is kept."""
    kl_mode: KLMode = "low_var_kl"
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    aggregation: Aggregation = "token-mean"
    importance_sampling: ImportanceSampling = field(default_factory=ImportanceSampling)
    micro_batch: int = 32
    """Rows of a forward and backward pass; costs memory, changes no result but rounding."""
    buckets: tuple[int, ...] = ()
    """Lengths that micro-batches are cut to, each compiled once. Empty: 64, 96, 128, 192
    and so on, and the model's context."""
    checkpoint_every: int = 20
    """Steps between checkpoints; there is one at the end too."""
    checkpoint_keep: int = 2
    sync_every: int = 1
    """Steps between published weights."""
    wait_weights: WaitWeights = field(default_factory=WaitWeights)
    warm_start: WarmStart = field(default_factory=WarmStart)
    trackers: tuple[str, ...] = ()
    """Where each step is logged: of `headrace.trackers.KINDS`."""
    profile: Profile = field(default_factory=Profile)

    def __post_init__(self) -> None:
        if len(self.betas) != 2 or not all(0 <= b < 1 for b in self.betas):
            raise ValueError(f"trainer.betas is {self.betas}: two numbers of [0, 1)")
        for name in ("micro_batch", "checkpoint_every", "checkpoint_keep", "sync_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"trainer.{name} must be positive")
        for name in ("seed", "lr", "weight_decay", "grad_clip", "kl_beta", "entropy", "steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"trainer.{name} must not be negative")
        if any(b < 1 for b in self.buckets):
            raise ValueError("trainer.buckets must be positive lengths")
        if self.profile.keep < 1:
            raise ValueError("trainer.profile.keep must be positive")
        if self.importance_sampling.cap <= 0 or self.warm_start.batch < 1:
            raise ValueError("trainer: importance_sampling.cap, warm_start.batch must be positive")
        self.policy_loss()

    def ladder(self, max_context: int) -> tuple[int, ...]:
        """Return the lengths that micro-batches are cut to, ascending.

        They do not depend on a batch, so the warm start compiles what GRPO needs. Lengths over
        `max_context` serve packed rows.
        """
        if self.buckets:
            return tuple(sorted(self.buckets))
        steps = {n << i for n in (64, 96) for i in range(16)}
        near = {s for s in steps if 0.75 * max_context < s < max_context}  # not worth a compile
        return tuple(sorted((steps - near) | {max_context}))

    def policy_loss(self) -> PolicyLoss:
        """Return the static part of the loss."""
        return PolicyLoss(
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            dual_clip=self.dual_clip or None,
            kl_mode=self.kl_mode,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that `from_dict` reads."""
        return dataclasses.asdict(self)
