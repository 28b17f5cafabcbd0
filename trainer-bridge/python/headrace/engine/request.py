"""A generation request: SGLang's fields, checked, and the state of the sequence while it grows."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.engine.batch import Sampling
from headrace.model import ModelConfig

# Fields of SGLang that are accepted as long as they ask for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "stop": (None, "", []),
    "min_p": (0, None),
    "min_new_tokens": (0, None),
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "repetition_penalty": (1, None),
    "json_schema": (None,),
    "regex": (None,),
    "ebnf": (None,),
    "structural_tag": (None,),
    "logit_bias": (None, {}),
    "custom_params": (None, {}),
}
_IGNORED = {"skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim"}  # text only
_FIELDS = {
    "max_new_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop_token_ids",
    "ignore_eos",
    "sampling_seed",
}


class BadRequestError(ValueError):
    """What a client asked for cannot be done; the text says why."""


@dataclasses.dataclass(frozen=True)
class Params:
    """The sampling parameters of a request."""

    max_new_tokens: int
    stops: frozenset[int]
    sampling: Sampling


def parse_sampling(obj: object, cfg: ModelConfig) -> Params:
    """Check a `sampling_params` object; raises BadRequestError for what cannot be done."""
    if obj is None:
        obj = {}
    if not isinstance(obj, dict):
        raise BadRequestError("sampling_params must be an object")
    for name, value in obj.items():
        if name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                raise BadRequestError(f"sampling parameter {name} is not supported")
        elif name not in _FIELDS and name not in _IGNORED:
            raise BadRequestError(f"unknown sampling parameter {name!r}")
    stops = _ids(obj.get("stop_token_ids") or [], cfg, "stop_token_ids")
    if not obj.get("ignore_eos", False):
        stops = [cfg.eos_id, *stops]
    top_k = _integer(obj, "top_k", -1, -1, 2**31 - 1)
    seed = obj.get("sampling_seed")
    if seed is None:
        seed = random.getrandbits(32)
    elif not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**64:
        raise BadRequestError("sampling_seed must be an integer of 64 bits")
    temperature = _number(obj, "temperature", 1.0)
    top_p = _number(obj, "top_p", 1.0)
    if not 0 <= temperature <= 1e4:
        raise BadRequestError("temperature must be 0 (greedy) or positive")
    if not 0 < top_p <= 1:
        raise BadRequestError("top_p must be above 0 and at most 1")
    return Params(
        max_new_tokens=_integer(obj, "max_new_tokens", 128, 1, 2**31 - 1),
        stops=frozenset(stops),
        sampling=Sampling.of(
            seed, max(top_k, 0), list(dict.fromkeys(stops)), max(temperature, 0.0), top_p
        ),
    )


def _integer(obj: dict[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = obj.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadRequestError(f"{name} must be an integer of at least {low}")
    return value


def _number(obj: dict[str, Any], name: str, default: float) -> float:
    value = obj.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadRequestError(f"{name} must be a number")
    return float(value)


def _ids(value: object, cfg: ModelConfig, name: str) -> list[int]:
    if not isinstance(value, list) or set(map(type, value)) - {int}:
        raise BadRequestError(f"{name} must be a list of token ids")
    if value and (min(value) < 0 or max(value) >= cfg.vocab_size):
        bad = next(i for i in value if not 0 <= i < cfg.vocab_size)
        raise BadRequestError(f"{name} holds {bad}: ids go from 0 to {cfg.vocab_size - 1}")
    return value


@dataclasses.dataclass(eq=False, slots=True)
class Request:
    """One sequence: prompt, what has been sampled, and how much of it lies in its cache slot.

    `tokens` i32 [prompt + max_new_tokens] holds `known` tokens, of which the slot holds `filled`.
    `notify` is called after every change that a client may see.
    """

    rid: str
    tokens: np.ndarray
    prompt: int
    params: Params
    notify: Callable[[], None]
    known: int
    filled: int = 0
    slot: int = -1
    cached: int = -1  # tokens found in the cache at the first admission; -1 before it
    epoch: int = 0  # weights that the content of the slot was computed with
    in_flight: bool = False
    retractions: int = 0
    logprobs: list[float] = dataclasses.field(default_factory=list)
    versions: list[list[Any]] = dataclasses.field(default_factory=list)  # [version, start, end]
    finish: dict[str, Any] | None = None

    @classmethod
    def create(
        cls,
        rid: str,
        input_ids: object,
        params: Params,
        cfg: ModelConfig,
        context: int,
        notify: Callable[[], None],
    ) -> Request:
        """Check the prompt's ids and length; raises BadRequestError."""
        ids = _ids(input_ids, cfg, "input_ids")
        if not ids:
            raise BadRequestError("input_ids is empty")
        total = len(ids) + params.max_new_tokens
        if total > context:
            raise BadRequestError(
                f"the prompt of {len(ids)} tokens plus max_new_tokens {params.max_new_tokens} "
                f"is longer than the context of {context} tokens"
            )
        tokens = np.empty(total, np.int32)
        tokens[: len(ids)] = ids
        return cls(rid, tokens, len(ids), params, notify, known=len(ids))

    @property
    def made(self) -> int:
        """Number of tokens sampled so far."""
        return self.known - self.prompt

    def append(self, ids: list[int], logprobs: list[float], version: str) -> int:
        """Add sampled tokens up to a stop id or the limit; return how many were taken."""
        start = self.made
        for token, logprob in zip(ids, logprobs, strict=True):
            self.tokens[self.known] = token
            self.known += 1
            self.logprobs.append(logprob)
            if token in self.params.stops:
                self.finish = {"type": "stop", "matched": token}
                break
            if self.made == self.params.max_new_tokens:
                self.finish = {"type": "length", "length": self.made}
                break
        if self.made > start:
            if self.versions and self.versions[-1][0] == version:
                self.versions[-1][2] = self.made
            else:
                self.versions.append([version, start, self.made])
        return self.made - start
