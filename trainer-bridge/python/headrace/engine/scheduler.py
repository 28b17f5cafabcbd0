"""Continuous batching as a pure state machine: no device, clock, thread or event loop.

`plan` says what the device should run next, `apply` takes in what came of it; between the two the
caller may add and abort requests. Weights are an epoch here: what lies in a slot belongs to the
epoch it was computed in, and a sequence that has sampled nothing yet starts over in a new one.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque

import numpy as np

from headrace.engine.batch import Batch, Sizes
from headrace.engine.request import Request
from headrace.engine.slots import SlotPool

NOT_FINITE = "the model gave a logprob that is not finite"


@dataclasses.dataclass
class Plan:
    """One device call: its rows, the tokens each row appends, and the packed arguments."""

    rows: list[Request]
    counts: list[int]
    batch: Batch


@dataclasses.dataclass
class Counters:
    """Totals since the start, in requests, tokens and calls.

    A prompt and what of it was found in the cache count when its first token is sampled.
    """

    requests: int = 0
    finished: int = 0
    aborted: int = 0
    retracted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    calls: int = 0
    rows: int = 0
    row_capacity: int = 0


class Scheduler:
    """Requests that wait for a slot, requests that run in one, and the slots."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.slots = SlotPool(sizes.slots, sizes.context)
        self.waiting: deque[Request] = deque()
        self.running: dict[Request, None] = {}  # in the order in which they were last served
        self.epoch = 0
        self.counters = Counters()
        self._prefilled_last = False

    def add(self, request: Request) -> None:
        """Queue a request."""
        self.counters.requests += 1
        self.waiting.append(request)

    def plan(self) -> Plan | None:
        """Admit what fits and choose the rows of the next call; None if there is nothing to run."""
        self._admit()
        rows = self._choose()
        if not rows:
            return None
        chunk = 1 if all(r.known - r.filled == 1 for r in rows) else self.sizes.chunk
        batch = Batch.empty(self.sizes, len(rows), chunk)
        counts = [self._fill(batch, i, r, chunk) for i, r in enumerate(rows)]
        self.counters.calls += 1
        self.counters.rows += len(rows)
        self.counters.row_capacity += len(batch.meta)
        return Plan(rows, counts, batch)

    def _admit(self) -> None:
        while self.waiting:
            request = self.waiting[0]
            claimed = self.slots.claim(request.tokens[: request.known])
            if claimed is None:
                return
            self.waiting.popleft()
            request.slot, request.filled = claimed
            request.epoch = self.epoch
            if request.cached < 0:
                request.cached = request.filled
            self.running[request] = None

    def _choose(self) -> list[Request]:
        """Take by turns rows with a prompt to read and rows that decode, longest unserved first."""
        prefill = [r for r in self.running if r.known - r.filled > 1]
        decode = [r for r in self.running if r.known - r.filled == 1]
        self._prefilled_last = bool(prefill) and not (decode and self._prefilled_last)
        return (prefill if self._prefilled_last else decode)[: self.sizes.rows[-1]]

    def _fill(self, batch: Batch, row: int, request: Request, chunk: int) -> int:
        end = min(request.known, request.filled + chunk)
        remaining = request.params.max_new_tokens - request.made
        budget = min(self.sizes.steps, remaining) if end == request.known else 0
        tokens = request.tokens[request.filled : end]
        batch.fill(row, request.slot, request.filled, tokens, budget, request.params.sampling)
        request.in_flight = True
        del self.running[request]
        self.running[request] = None
        return len(tokens)

    def apply(self, plan: Plan, ids: np.ndarray, logprobs: np.ndarray, version: str) -> bool:
        """Take in what weights `version` made of a plan: ids and logprobs [R, steps].

        False if a logprob is not finite. Its request is aborted, and the caller must clear the
        cache: numbers like that spread to whatever uses the slot later.
        """
        sound = True
        results = zip(ids.tolist(), logprobs.tolist(), strict=True)
        for request, count, (row, lps) in zip(plan.rows, plan.counts, results, strict=False):
            request.in_flight = False
            if request.finish is not None:  # aborted meanwhile
                self._leave(request, keep=False)
                continue
            made = row.index(-1) if row[-1] == -1 else len(row)
            if all(map(math.isfinite, lps[:made])):
                self._extend(request, count, row[:made], lps[:made], version)
            else:
                sound = False
                self._abort(request, NOT_FINITE)
        return sound

    def fail(self, plan: Plan, message: str) -> None:
        """Abort the requests of a plan whose call failed; the caller must clear the cache."""
        for request in plan.rows:
            request.in_flight = False
            if request.finish is None:
                self._abort(request, message)
            else:
                self._leave(request, keep=False)

    def _extend(
        self, request: Request, count: int, ids: list[int], logprobs: list[float], version: str
    ) -> None:
        taken = request.append(ids, logprobs, version)
        request.filled += count + max(taken - 1, 0)  # the last token sampled was not run
        self.counters.generated_tokens += taken
        if taken and request.made == taken:  # until now its prompt might have had to be read again
            self.counters.prompt_tokens += request.prompt
            self.counters.cached_tokens += max(request.cached, 0)
        if request.finish is not None:
            self.counters.finished += 1
            self._leave(request, keep=request.epoch == self.epoch)
        if taken:
            request.notify()

    def _leave(self, request: Request, keep: bool) -> None:
        """Free the slot of a request; `keep` lets a later prompt go on from its content."""
        self.running.pop(request, None)
        if request.slot >= 0:
            content = request.tokens[: request.filled] if keep else None
            self.slots.release(request.slot, content)
            request.slot = -1

    def abort(self, request: Request, message: str) -> None:
        """Finish a request with what it has; its slot is freed once no call uses it."""
        if request.finish is None:
            self._abort(request, message)

    def _abort(self, request: Request, message: str) -> None:
        request.finish = {"type": "abort", "message": message}
        self.counters.aborted += 1
        if request.slot < 0:
            self.waiting.remove(request)
        elif not request.in_flight:
            self._leave(request, keep=False)
        request.notify()

    def live(self) -> list[Request]:
        """Return every request that is not finished."""
        return [r for r in (*self.running, *self.waiting) if r.finish is None]

    def retract(self) -> int:
        """Send all running requests back to the head of the queue, to be computed anew; count them.

        No call may be in flight. Their sampled tokens stay.
        """
        requests = list(self.running)
        for request in requests:
            self._leave(request, keep=False)
            request.filled = 0
            request.retractions += 1
        self.waiting.extendleft(reversed(requests))
        self.counters.retracted += len(requests)
        return len(requests)

    def new_epoch(self) -> None:
        """Weights have changed: drop what idle slots hold and restart prompts that only were read.

        No call may be in flight. A sequence that has sampled tokens goes on from its old content.
        """
        self.epoch += 1
        self.slots.forget()
        for request in self.running:
            if not request.made:
                request.filled = request.cached = 0
                request.epoch = self.epoch
        for request in self.waiting:
            request.cached = min(request.cached, 0)

    def used_tokens(self) -> int:
        """Return the tokens that running sequences hold in the cache."""
        return sum(r.filled for r in self.running)
