"""Weight updates, pauses and aborts, with the device held between chosen calls."""

import asyncio
import contextlib
import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from headrace import model, weights
from headrace.engine.scheduler import NOT_FINITE
from tests.enginerig import CFG, SIZES, Rig, fresh, logprobs, params, trainer_logprobs

PROMPT = [5, 6, 7, 8, 9]


@pytest.fixture(name="rig")
def _rig() -> Rig:
    return fresh()


class Held:
    """The engine with its device behind a closed gate."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._first = rig.engine.scheduler.counters.calls

    def wait_for_call(self, number: int) -> None:
        """Wait until call `number` (from 1) has been planned; it stands before the gate."""
        counters = self._rig.engine.scheduler.counters
        self._rig.until(lambda: counters.calls >= self._first + number)

    def pause_after(self, calls: int, mode: str) -> None:
        """Let `calls` device calls pass, the last of them with the pause already asked for."""
        self._rig.gate.allow(calls - 1)
        self.wait_for_call(calls)
        asked = self._rig.call(self._rig.engine.pause(mode))
        self._rig.gate.allow(1)
        asked.result(60)


@contextlib.contextmanager
def held(rig: Rig) -> Iterator[Held]:
    with rig.gate.closed():
        yield Held(rig)


def spans(answer: Any) -> list[tuple[str, int, int]]:
    return [(s["version"], s["start"], s["end"]) for s in answer["meta_info"]["weight_versions"]]


def swapped(rig: Rig, mode: str) -> Any:
    """Answer of 20 greedy tokens whose weights change from 1 to 2 after two calls (8 tokens)."""
    with held(rig) as device:
        answer = rig.generate_in_background(PROMPT, max_new_tokens=20, temperature=0)
        device.pause_after(2, mode)
        update = rig.update(2)
    assert update["num_paused_requests"] == 1
    assert not answer.done()
    rig.post("/continue_generation")
    return answer.result(60)


def continued(output: list[int], split: int) -> np.ndarray:
    """Logprobs of output[split:] by weights 2 over a cache that weights 1 filled, as in place."""
    one, two = params(1), params(2)
    lengths, slot = jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32)
    tokens = jnp.array([PROMPT + output])
    cache = model.new_cache(CFG, 1, 64)
    old = len(PROMPT) + split - 1  # the last token sampled by weights 1 was run by weights 2
    _, cache = model.extend(one, CFG, cache, tokens[:, :old], lengths, slot)
    x, _ = model.extend(two, CFG, cache, tokens[:, old:-1], lengths + old, slot)
    logp = np.asarray(model.logits(two, CFG, x))
    logp = logp - np.logaddexp.reduce(logp, axis=-1, keepdims=True)
    return logp[0, np.arange(len(output) - split), output[split:]]


def test_in_place_update_spans_versions_and_never_mixes_them(rig: Rig) -> None:
    answer = swapped(rig, "in_place")
    output, got = answer["output_ids"], logprobs(answer)
    assert spans(answer) == [("1", 0, 8), ("2", 8, 20)]
    assert answer["meta_info"]["weight_version"] == "2"
    assert answer["meta_info"]["num_retractions"] == 0
    old = trainer_logprobs(params(1), PROMPT, output)
    np.testing.assert_allclose(got[:8], old[:8], atol=1e-4)
    np.testing.assert_allclose(got[8:], continued(output, 8), atol=1e-4)


def test_a_sequence_over_two_versions_leaves_no_prefix_behind(rig: Rig) -> None:
    history = PROMPT + swapped(rig, "in_place")["output_ids"]
    answer = rig.generate([*history, 3])
    assert answer["meta_info"]["cached_tokens"] == 0
    want = trainer_logprobs(params(2), [*history, 3], answer["output_ids"])
    np.testing.assert_allclose(logprobs(answer), want, atol=1e-4)


def test_retracted_sequence_is_recomputed_with_the_new_weights(rig: Rig) -> None:
    answer = swapped(rig, "retract")
    output, got = answer["output_ids"], logprobs(answer)
    assert spans(answer) == [("1", 0, 8), ("2", 8, 20)]
    assert answer["meta_info"]["num_retractions"] == 1
    new = trainer_logprobs(params(2), PROMPT, output)
    np.testing.assert_allclose(got[8:], new[8:], atol=1e-4)


def test_retracting_without_new_weights_changes_nothing(rig: Rig) -> None:
    whole = rig.generate(PROMPT, max_new_tokens=20)
    with held(rig) as device:
        answer = rig.generate_in_background(PROMPT, max_new_tokens=20)
        device.pause_after(2, "retract")
        assert rig.post("/flush_cache")[0] == 200
    rig.post("/continue_generation")
    assert answer.result(60)["output_ids"] == whole["output_ids"]
    assert spans(answer.result()) == [("1", 0, 20)]


def test_prompt_read_by_old_weights_is_read_again(rig: Rig) -> None:
    prompt = [3 + i % 50 for i in range(40)]  # three chunks: nothing sampled after two
    with held(rig) as device:
        answer = rig.generate_in_background(prompt, max_new_tokens=4)
        device.pause_after(2, "in_place")
        rig.update(2)
    rig.post("/continue_generation")
    assert spans(answer.result(60)) == [("2", 0, 4)]
    want = trainer_logprobs(params(2), prompt, answer.result()["output_ids"])
    np.testing.assert_allclose(logprobs(answer.result()), want, atol=1e-4)


def test_update_without_a_pause_waits_for_the_call_in_flight(rig: Rig) -> None:
    with held(rig) as device:
        answer = rig.generate_in_background(PROMPT, max_new_tokens=20)
        device.wait_for_call(1)
        loading = rig.call(rig.engine.load(str(rig.saved(2)), "2"))
        rig.until(lambda: rig.engine._between)
        assert rig.engine.served is not None
        assert rig.engine.served.version == "1"
        rig.gate.allow(1)
        loading.result(60)
    assert spans(answer.result(60)) == [("1", 0, 4), ("2", 4, 20)]


def test_update_reports_the_checksum_it_loaded_and_drops_prefixes(rig: Rig) -> None:
    history = PROMPT + rig.generate(PROMPT)["output_ids"]
    update = rig.update(2, version="v-two")
    assert update["success"] is True
    assert update["sha256"] == weights.load(rig.saved(2)).sha256
    answer = rig.generate([*history, 3])
    assert answer["meta_info"]["cached_tokens"] == 0
    assert answer["meta_info"]["weight_version"] == "v-two"


def broken(rig: Rig, tmp_path: Path, kind: str) -> Path:
    if kind == "missing":
        return tmp_path / "nothing"
    if kind == "other model":
        cfg = model.ModelConfig(vocab_size=CFG.vocab_size, d_model=16)
        return weights.save(tmp_path, "w", model.init(jnp.array([0, 1], jnp.uint32), cfg), cfg)[0]
    if kind == "nan":
        bad = params(2) | {"norm": jnp.full(CFG.d_model, jnp.nan)}
        return weights.save(tmp_path, "w", bad, CFG)[0]
    path = tmp_path / "w"
    shutil.copytree(rig.saved(2), path)
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("torn", "header promises"),
        ("missing", "read model config"),
        ("other model", "another model"),
        ("nan", "norm holds values that are not finite"),
    ],
)
def test_bad_weights_are_refused_and_the_old_ones_serve(
    rig: Rig, tmp_path: Path, kind: str, message: str
) -> None:
    before, info = rig.generate(PROMPT), rig.get("/model_info")[1]
    body = {"model_path": str(broken(rig, tmp_path, kind)), "weight_version": "9"}
    status, answer = rig.post("/update_weights_from_disk", body)
    assert status == 400
    assert answer["success"] is False
    assert message in answer["message"]
    assert rig.get("/model_info")[1] == info
    after = rig.generate(PROMPT)
    assert (after["output_ids"], spans(after)) == (before["output_ids"], [("1", 0, 8)])


def test_pause_abort_ends_requests_and_new_ones_wait(rig: Rig) -> None:
    with held(rig) as device:
        answer = rig.generate_in_background(PROMPT, max_new_tokens=20)
        device.pause_after(2, "abort")
        finish = answer.result(60)["meta_info"]["finish_reason"]
        assert finish["type"] == "abort"
        assert len(answer.result()["output_ids"]) == 8
    waiting = rig.generate_in_background(PROMPT)
    assert not rig.engine.scheduler.running
    rig.post("/continue_generation")
    assert len(waiting.result(60)["output_ids"]) == 8


def test_abort_request_ends_those_whose_id_begins_so(rig: Rig) -> None:
    rig.post("/pause_generation", {"mode": "in_place"})
    answers = {r: rig.generate_in_background(PROMPT, rid=r) for r in ("g1/0", "g1/1", "g2/0")}
    assert rig.post("/abort_request", {"rid": "g1/"})[1]["num_aborted_requests"] == 2
    rig.post("/continue_generation")
    reasons = {r: a.result(60)["meta_info"]["finish_reason"]["type"] for r, a in answers.items()}
    assert reasons == {"g1/0": "abort", "g1/1": "abort", "g2/0": "length"}


def test_abort_during_a_call_answers_at_once_and_frees_the_slot_after_it(rig: Rig) -> None:
    with held(rig) as device:
        answer = rig.generate_in_background(PROMPT)
        device.wait_for_call(1)
        assert rig.post("/abort_request", {"abort_all": True})[0] == 200
        assert answer.result(60)["output_ids"] == []
        assert len(rig.engine.scheduler.slots) == SIZES.slots - 1
    rig.until(lambda: len(rig.engine.scheduler.slots) == SIZES.slots)


def test_abort_needs_a_target(rig: Rig) -> None:
    assert rig.post("/abort_request", {})[0] == 400
    assert rig.post("/abort_request", {"rid": ""})[0] == 400


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_aborts_its_request(rig: Rig, stream: bool) -> None:
    counters = rig.engine.scheduler.counters
    aborted, requests = counters.aborted, counters.requests
    with rig.gate.closed():
        connection = http.client.HTTPConnection("127.0.0.1", rig.port)
        body = rig.body(PROMPT, max_new_tokens=100) | {"stream": stream}
        connection.request("POST", "/generate", json.dumps(body))
        rig.until(lambda: counters.requests > requests)
        connection.close()
        rig.until(lambda: counters.aborted == aborted + 1)
    rig.until(lambda: len(rig.engine.scheduler.slots) == SIZES.slots)


def test_flush_is_refused_while_requests_run(rig: Rig) -> None:
    with held(rig) as device:
        answer = rig.generate_in_background(PROMPT)
        device.pause_after(1, "in_place")
        assert rig.post("/flush_cache")[0] == 400
    rig.post("/continue_generation")
    assert len(answer.result(60)["output_ids"]) == 8


def test_unknown_pause_mode_is_refused(rig: Rig) -> None:
    assert rig.post("/pause_generation", {"mode": "gently"})[0] == 400


def test_requests_of_a_failed_device_call_end_and_the_engine_goes_on(rig: Rig, monkeypatch) -> None:
    run = rig.engine._device.run
    failures = iter([RuntimeError("out of memory")])

    def failing(*args: Any) -> Any:
        for error in failures:
            raise error
        return run(*args)

    monkeypatch.setattr(rig.engine._device, "run", failing)
    finish = rig.generate(PROMPT)["meta_info"]["finish_reason"]
    assert finish == {"type": "abort", "message": "device call failed: out of memory"}
    assert len(rig.generate(PROMPT)["output_ids"]) == 8


def test_weights_that_overflow_end_requests_and_leave_no_trace(rig: Rig) -> None:
    want = rig.generate(PROMPT)["output_ids"]
    huge = {k: v * 1e25 if ".attn." in k else v for k, v in params(1).items()}
    path, _ = weights.save(rig.root, f"v{len(list(rig.root.iterdir())):06d}-9", huge, CFG)
    body = {"model_path": str(path), "weight_version": "huge"}
    assert rig.post("/update_weights_from_disk", body)[0] == 200
    body = rig.body([PROMPT] * SIZES.slots)  # every slot
    for answer in rig.post("/generate", body)[1]:
        finish = answer["meta_info"]["finish_reason"]
        assert finish == {"type": "abort", "message": NOT_FINITE}
        assert answer["output_ids"] == []
    rig.update(1)
    for answer in rig.post("/generate", body)[1]:
        assert answer["output_ids"] == want


def test_more_requests_than_slots_are_all_served(rig: Rig) -> None:
    async def many() -> None:
        loop = asyncio.get_running_loop()
        prompts = [[3 + i % 50, 4, 5] for i in range(4 * SIZES.slots)]
        tasks = [loop.run_in_executor(None, rig.generate, p) for p in prompts]
        answers = await asyncio.gather(*tasks)
        assert all(len(a["output_ids"]) == 8 for a in answers)

    asyncio.run(many())
