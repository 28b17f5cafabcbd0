"""The scheduler alone, with a device that makes up its tokens."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.batch import COUNT, LENGTH, SLOT, Sizes
from headrace.engine.request import Request, parse_sampling
from headrace.engine.scheduler import Plan, Scheduler
from headrace.engine.slots import SlotPool
from headrace.model import ModelConfig

CFG = ModelConfig(vocab_size=40)
SIZES = Sizes(slots=3, context=40, rows=(2, 4), chunk=5, steps=3)


def request(ids: list[int], new: int = 4) -> Request:
    params = parse_sampling({"max_new_tokens": new, "ignore_eos": True}, CFG)
    return Request.create("r", ids, params, CFG, SIZES.context, lambda: None)


def result(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """What a device would answer: each row samples its budget of token 7."""
    rows = len(plan.batch.meta)
    ids = np.full((rows, SIZES.steps), -1, np.int32)
    for i in range(len(plan.rows)):
        ids[i, : plan.batch.meta[i, 3]] = 7
    return ids, np.full((rows, SIZES.steps), -0.5, np.float32)


def run(s: Scheduler) -> None:
    while plan := s.plan():
        s.apply(plan, *result(plan), "v")


def test_prompt_is_read_in_chunks_and_sampling_starts_with_the_last() -> None:
    s, r = Scheduler(SIZES), request(list(range(12)), new=4)
    s.add(r)
    seen = []
    while plan := s.plan():
        seen.append(plan.batch.meta[0, [LENGTH, COUNT, 3]].tolist())
        s.apply(plan, *result(plan), "v")
    assert seen == [[0, 5, 0], [5, 5, 0], [10, 2, 3], [14, 1, 1]]
    assert r.made == 4


def test_readers_and_decoders_take_turns() -> None:
    s = Scheduler(SIZES)
    s.add(request([1], new=30))
    s.add(request(list(range(30)), new=1))
    chunks = []
    for _ in range(4):
        plan = s.plan()
        assert plan is not None
        chunks.append(plan.batch.tokens.shape[1])
        s.apply(plan, *result(plan), "v")
    assert chunks == [5, 1, 5, 1]


def test_siblings_with_the_same_history_each_find_a_slot_of_their_own() -> None:
    pool = SlotPool(3, 40)
    same = np.arange(5, dtype=np.int32)
    for slot in (0, 1):
        claimed = pool.claim(same)
        assert claimed == (slot, 0)
    for slot in (0, 1):
        pool.release(slot, same)
    longer = np.arange(9, dtype=np.int32)
    reused = sorted(pool.claim(longer) or () for _ in range(2))
    assert reused == [(0, 5), (1, 5)]
    assert pool.claim(longer) == (2, 0)
    assert pool.claim(longer) is None


def test_the_longest_held_prefix_wins() -> None:
    pool = SlotPool(2, 40)
    tokens = np.arange(20, dtype=np.int32)
    assert [pool.claim(tokens), pool.claim(tokens)] == [(0, 0), (1, 0)]
    pool.release(0, tokens[:4])
    pool.release(1, tokens[:9])
    assert pool.claim(tokens) == (1, 9)


operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.lists(st.integers(0, 3), min_size=1, max_size=20),
            st.integers(1, 12),
        ),
        st.tuples(st.just("abort"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["call", "abort in call", "retract", "swap"])),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(operations)
def test_every_request_finishes_once_and_no_slot_is_lost_or_shared(ops) -> None:
    s, requests = Scheduler(SIZES), []
    content: dict[int, list[int]] = {}  # what each slot really holds

    def call(abort: bool) -> None:
        plan = s.plan()
        if plan is None:
            return
        slots = [r.slot for r in s.running]
        assert len(set(slots)) == len(slots)
        assert len(s.slots) + len(slots) == SIZES.slots
        ids, logprobs = result(plan)
        for row, meta in enumerate(plan.batch.meta[: len(plan.rows)]):
            known, r = content.get(meta[SLOT], []), plan.rows[row]
            assert known[: meta[LENGTH]] == r.tokens[: meta[LENGTH]].tolist()
            sampled = [7] * max(meta[3] - 1, 0)
            added = plan.batch.tokens[row, : meta[COUNT]].tolist()
            content[meta[SLOT]] = known[: meta[LENGTH]] + added + sampled
        if abort:
            s.abort(plan.rows[0], "test")
        s.apply(plan, ids, logprobs, "v")

    for op, *args in ops:
        if op == "add":
            requests.append(request(args[0], args[1]))
            s.add(requests[-1])
        elif op == "abort" and args[0] < len(requests):
            s.abort(requests[args[0]], "test")
        elif op in ("call", "abort in call"):
            call(op == "abort in call")
        elif op == "retract":
            s.retract()
        elif op == "swap":
            s.new_epoch()
    while s.running or s.waiting:
        call(abort=False)
    assert all(r.finish is not None for r in requests)
    assert s.counters.finished + s.counters.aborted == len(requests)
    assert len(s.slots) == SIZES.slots
