"""`POST /generate`: from SGLang's request object to SGLang's answer, at once or as a stream."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from headrace.engine.core import Engine
from headrace.engine.request import BadRequestError, Request, parse_sampling

# Fields that would change the answer in a way this engine does not offer, and what may stand there.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "input_embeds": (None,),
    "image_data": (None, []),
    "lora_path": (None, ""),
    "logprob_start_len": (None, -1),
    "top_logprobs_num": (None, 0),
    "token_ids_logprob": (None, []),
    "return_hidden_states": (None, False),
    "session_params": (None, {}),
}


class Generation:
    """The sequences of one HTTP request, queued by the constructor.

    Raises BadRequestError if any of them cannot be served; then none is queued.
    """

    def __init__(self, engine: Engine, body: dict[str, Any]) -> None:
        self._engine = engine
        self._changed = asyncio.Event()
        self._started = time.monotonic()
        self._with_logprobs = bool(body.get("return_logprob", False))
        self.single, self.requests = self._parse(body)
        for request in self.requests:
            engine.submit(request)

    def _parse(self, body: dict[str, Any]) -> tuple[bool, list[Request]]:
        if "text" in body and body["text"] is not None:
            raise BadRequestError("this engine has no tokenizer: send input_ids instead of text")
        for name, allowed in _NEUTRAL.items():
            if name in body and body[name] not in allowed:
                raise BadRequestError(f"{name} is not supported")
        ids = body.get("input_ids")
        if not isinstance(ids, list) or not ids:
            raise BadRequestError("input_ids must be a list of token ids, or a list of such lists")
        single = not isinstance(ids[0], list)
        prompts = [ids] if single else ids
        count = len(prompts)
        rids = _rids(body.get("rid"), count)
        cfg, context = self._engine.cfg, self._engine.sizes.context
        params = body.get("sampling_params")
        each = params if isinstance(params, list) else [params] * count
        if len(each) != count:
            raise BadRequestError(f"{len(each)} sampling_params for {count} prompts")
        return single, [
            Request.create(rid, p, parse_sampling(s, cfg), cfg, context, self._changed.set)
            for rid, p, s in zip(rids, prompts, each, strict=True)
        ]

    async def finished(self) -> Any:
        """Wait for all sequences: one answer object, or a list of them for a batch.

        A caller that gives up (cancellation) aborts them.
        """
        try:
            while any(r.finish is None for r in self.requests):
                await self._changed.wait()
                self._changed.clear()
        finally:
            self.abandon()
        answers = [self._answer(r) for r in self.requests]
        return answers[0] if self.single else answers

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events: each holds all that one sequence has so far."""
        sent = [(-1, False)] * len(self.requests)
        try:
            while not all(done for _, done in sent):
                await self._changed.wait()
                self._changed.clear()
                for i, request in enumerate(self.requests):
                    now = (request.made, request.finish is not None)
                    if now != sent[i] and any(now):
                        sent[i] = now
                        index = {} if self.single else {"index": i}
                        yield f"data: {dumps(self._answer(request) | index)}\n\n".encode()
            yield b"data: [DONE]\n\n"
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Abort what is not finished."""
        for request in self.requests:
            if request.finish is None:
                self._engine.scheduler.abort(request, "the client went away")

    def _answer(self, request: Request) -> dict[str, Any]:
        ids = request.tokens[request.prompt : request.known].tolist()
        served = self._engine.served
        current = served.version if served else None
        meta: dict[str, Any] = {
            "id": request.rid,
            "finish_reason": request.finish,
            "prompt_tokens": request.prompt,
            "completion_tokens": len(ids),
            "cached_tokens": max(request.cached, 0),
            "num_retractions": request.retractions,
            "weight_version": request.versions[-1][0] if request.versions else current,
            "weight_versions": [
                {"version": v, "start": start, "end": end} for v, start, end in request.versions
            ],
            "e2e_latency": time.monotonic() - self._started,
        }
        if self._with_logprobs:
            pairs = zip(request.logprobs, ids, strict=True)
            meta["output_token_logprobs"] = [[lp, token, None] for lp, token in pairs]
        return {"text": "", "output_ids": ids, "meta_info": meta}


def dumps(obj: Any) -> str:
    """Compact JSON."""
    return json.dumps(obj, separators=(",", ":"))


def _rids(value: Any, count: int) -> list[str]:
    """Return a request id per prompt: as given, numbered from one given string, or made up."""
    if value is None:
        return [uuid.uuid4().hex for _ in range(count)]
    if isinstance(value, str):
        value = [value] if count == 1 else [f"{value}_{i}" for i in range(count)]
    if not isinstance(value, list) or len(value) != count or set(map(type, value)) != {str}:
        raise BadRequestError("rid must be a string, or one string per prompt")
    if not all(value):
        raise BadRequestError("rid is empty")
    return value
