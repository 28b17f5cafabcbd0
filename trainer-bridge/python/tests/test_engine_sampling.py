"""What is sampled, and that its logprobs are the trainer's."""

import numpy as np
import pytest

from tests.enginerig import CFG, SIZES, Rig, fresh, logprobs, params, trainer_logprobs

PROMPT = [5, 6, 7, 8, 9]


@pytest.fixture(name="rig")
def _rig() -> Rig:
    return fresh()


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.6])
def test_logprobs_agree_with_the_trainers_forward(rig: Rig, temperature: float) -> None:
    answer = rig.generate(PROMPT, max_new_tokens=40, temperature=temperature)
    want = trainer_logprobs(params(1), PROMPT, answer["output_ids"], temperature)
    np.testing.assert_allclose(logprobs(answer), want, atol=1e-4)


def test_logprobs_agree_over_turns_with_chunked_prefill_and_reuse(rig: Rig) -> None:
    ids = [3 + i % 50 for i in range(37)]  # three chunks
    for turn in range(3):
        answer = rig.generate(ids, max_new_tokens=3, sampling_seed=turn)
        want = trainer_logprobs(params(1), ids, answer["output_ids"])
        np.testing.assert_allclose(logprobs(answer), want, atol=1e-4)
        assert (answer["meta_info"]["cached_tokens"] > 0) == (turn > 0)
        ids = ids + answer["output_ids"] + [11 + turn] * 19


def test_greedy_takes_the_most_likely_token_at_temperature_one(rig: Rig) -> None:
    answers = [rig.generate(PROMPT, temperature=0, sampling_seed=s) for s in (1, 2)]
    assert answers[0]["output_ids"] == answers[1]["output_ids"]
    ids = answers[0]["output_ids"]
    want = trainer_logprobs(params(1), PROMPT, ids)
    np.testing.assert_allclose(logprobs(answers[0]), want, atol=1e-4)
    for i in range(len(ids)):
        best = max(
            trainer_logprobs(params(1), PROMPT + ids[:i], [t])[0] for t in range(CFG.vocab_size)
        )
        assert logprobs(answers[0])[i] == pytest.approx(best, abs=1e-4)


def test_top_k_one_is_greedy_whatever_the_seed(rig: Rig) -> None:
    greedy = rig.generate(PROMPT, temperature=0)["output_ids"]
    assert rig.generate(PROMPT, top_k=1, sampling_seed=99)["output_ids"] == greedy
    assert rig.generate(PROMPT, top_p=1e-6, sampling_seed=99)["output_ids"] == greedy


def test_samples_follow_the_models_distribution(rig: Rig) -> None:
    n = 3000
    body = rig.body([PROMPT] * n)
    one = body["sampling_params"] | {"max_new_tokens": 1}
    body["sampling_params"] = [one | {"sampling_seed": s} for s in range(n)]
    drawn = [a["output_ids"][0] for a in rig.post("/generate", body)[1]]
    seen = np.bincount(drawn, minlength=CFG.vocab_size) / n
    p = np.exp([trainer_logprobs(params(1), PROMPT, [t])[0] for t in range(CFG.vocab_size)])
    z = (seen - p) / np.sqrt(p * (1 - p) / n)
    assert np.abs(z).max() < 4.5
    assert np.abs(p.sum() - 1) < 1e-4


@pytest.mark.parametrize(
    ("sampling", "allowed"), [({"top_k": 3}, 3), ({"top_p": 0.2}, None), ({"top_k": 1}, 1)]
)
def test_truncated_sampling_draws_from_the_head_only(rig: Rig, sampling, allowed) -> None:
    scores = [trainer_logprobs(params(1), PROMPT, [t])[0] for t in range(CFG.vocab_size)]
    order = np.argsort(scores)[::-1]
    if allowed is None:
        mass = np.cumsum(np.exp(np.array(scores)[order]))
        allowed = int(np.searchsorted(mass, sampling["top_p"])) + 1
    body = rig.body([PROMPT] * 400)
    one = body["sampling_params"] | {"max_new_tokens": 1} | sampling
    body["sampling_params"] = [one | {"sampling_seed": s} for s in range(400)]
    answers = rig.post("/generate", body)[1]
    assert {a["output_ids"][0] for a in answers} == set(order[:allowed].tolist())
    for a in answers[:20]:  # logprobs are those of the whole distribution
        assert logprobs(a)[0] == pytest.approx(scores[a["output_ids"][0]], abs=1e-4)


def test_a_sample_does_not_depend_on_what_shares_its_batch(rig: Rig) -> None:
    alone = rig.generate(PROMPT, max_new_tokens=12, sampling_seed=42)
    others = [[10 + i, *range(3, 3 + i)] for i in range(2 * SIZES.slots)]
    body = rig.body([*others[:7], PROMPT, *others[7:]])
    base = body["sampling_params"] | {"max_new_tokens": 12}
    body["sampling_params"] = [base | {"sampling_seed": i} for i in range(len(others) + 1)]
    body["sampling_params"][7] = base | {"sampling_seed": 42}
    together = rig.post("/generate", body)[1][7]
    assert together["output_ids"] == alone["output_ids"]
    np.testing.assert_allclose(logprobs(together), logprobs(alone), atol=1e-5)


def test_a_sample_depends_on_seed_and_position_not_on_the_split(rig: Rig) -> None:
    whole = rig.generate(PROMPT, max_new_tokens=12, sampling_seed=5)["output_ids"]
    split = rig.generate(PROMPT, max_new_tokens=5, sampling_seed=5)["output_ids"]
    split += rig.generate(PROMPT + split, max_new_tokens=7, sampling_seed=5)["output_ids"]
    assert split == whole
    assert rig.generate(PROMPT, max_new_tokens=12, sampling_seed=6)["output_ids"] != whole
