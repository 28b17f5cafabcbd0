import json

import pytest

from headrace.engine.trail import Trail
from tests.enginerig import CFG, SIZES, Rig, fresh

PROMPT = [5, 6, 7, 8, 9]


@pytest.fixture(name="rig")
def _rig() -> Rig:
    return fresh()


def test_answer_has_the_fields_of_sglang(rig: Rig) -> None:
    answer = rig.generate(PROMPT, rid="g1/0/0", max_new_tokens=3)
    meta = answer["meta_info"]
    assert answer["text"] == ""
    assert len(answer["output_ids"]) == 3
    assert meta["id"] == "g1/0/0"
    assert meta["finish_reason"] == {"type": "length", "length": 3}
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == (5, 3, 0)
    assert meta["weight_version"] == "1"
    assert meta["weight_versions"] == [{"version": "1", "start": 0, "end": 3}]
    assert [t[1:] for t in meta["output_token_logprobs"]] == [
        [i, None] for i in answer["output_ids"]
    ]


def test_logprobs_come_only_when_asked_for(rig: Rig) -> None:
    body = rig.body(PROMPT) | {"return_logprob": False}
    assert "output_token_logprobs" not in rig.post("/generate", body)[1]["meta_info"]


def test_batch_answers_in_order_with_its_own_ids(rig: Rig) -> None:
    body = rig.body([PROMPT, [9, 8], [7]], temperature=0) | {"rid": ["a", "b", "c"]}
    status, answers = rig.post("/generate", body)
    assert status == 200
    assert [a["meta_info"]["id"] for a in answers] == ["a", "b", "c"]
    for prompt, answer in zip([PROMPT, [9, 8], [7]], answers, strict=True):
        assert answer["output_ids"] == rig.generate(prompt, temperature=0)["output_ids"]


def test_stop_token_ends_the_answer_and_is_part_of_it(rig: Rig) -> None:
    full = rig.generate(PROMPT, max_new_tokens=8)["output_ids"]
    stop = full[5]
    answer = rig.generate(PROMPT, max_new_tokens=8, stop_token_ids=[stop])
    assert answer["output_ids"] == full[: full.index(stop) + 1]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}


def test_more_stop_ids_than_the_device_takes_still_stop(rig: Rig) -> None:
    full = rig.generate(PROMPT, max_new_tokens=8)["output_ids"]
    others = [i for i in range(CFG.vocab_size) if i not in full]
    answer = rig.generate(PROMPT, max_new_tokens=8, stop_token_ids=[*others, full[5]])
    assert answer["output_ids"] == full[: full.index(full[5]) + 1]
    again = rig.generate(PROMPT + answer["output_ids"] + [3], max_new_tokens=1)
    assert again["meta_info"]["cached_tokens"] == 5 + len(answer["output_ids"]) - 1


def test_eos_stops_unless_ignored(rig: Rig) -> None:
    seeds = range(200)
    bodies = [rig.body(PROMPT, max_new_tokens=4, sampling_seed=s, ignore_eos=False) for s in seeds]
    body = bodies[0] | {"input_ids": [PROMPT] * len(bodies)}
    body["sampling_params"] = [b["sampling_params"] for b in bodies]
    answers = rig.post("/generate", body)[1]
    stopped = [a for a in answers if CFG.eos_id in a["output_ids"]]
    assert stopped, "no sample of 200 has drawn the eos id"
    for answer in stopped:
        assert answer["output_ids"].index(CFG.eos_id) == len(answer["output_ids"]) - 1
        assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": CFG.eos_id}


def test_stream_is_cumulative_and_ends_with_done(rig: Rig) -> None:
    chunks = list(rig.stream(PROMPT, max_new_tokens=10))
    whole = rig.generate(PROMPT, max_new_tokens=10)
    assert len(chunks) == 3  # 4 + 4 + 2 tokens
    for chunk in chunks:
        ids = chunk["output_ids"]
        assert ids == whole["output_ids"][: len(ids)]
        assert len(chunk["meta_info"]["output_token_logprobs"]) == len(ids)
    assert [c["meta_info"]["finish_reason"] for c in chunks[:-1]] == [None, None]
    assert chunks[-1]["output_ids"] == whole["output_ids"]
    assert chunks[-1]["meta_info"]["finish_reason"]["type"] == "length"


def test_batch_stream_names_each_chunks_prompt(rig: Rig) -> None:
    last = {c["index"]: c for c in rig.stream([PROMPT, [9, 8]], max_new_tokens=6)}
    assert {i: len(c["output_ids"]) for i, c in last.items()} == {0: 6, 1: 6}


def test_turns_of_an_episode_reuse_the_prefix(rig: Rig) -> None:
    ids = list(range(3, 30))
    for turn in range(4):
        answer = rig.generate(ids, max_new_tokens=3)
        expected = 0 if turn == 0 else len(ids) - 6  # all but 5 new tokens and the last sampled
        assert answer["meta_info"]["cached_tokens"] == expected
        ids = ids + answer["output_ids"] + [3, 4, 5, 6, 7]


def test_cached_prefixes_are_evicted_least_recent_first(rig: Rig) -> None:
    episodes = [[i, i + 1, i + 2] for i in range(3, 3 + SIZES.slots + 1)]
    histories = [e + rig.generate(e, max_new_tokens=2)["output_ids"] + [1] for e in episodes]
    first = rig.generate(histories[0], max_new_tokens=1)["meta_info"]["cached_tokens"]
    last = rig.generate(histories[-1], max_new_tokens=1)["meta_info"]["cached_tokens"]
    assert (first, last) == (0, 4)


def test_flush_cache_forgets_prefixes(rig: Rig) -> None:
    history = PROMPT + rig.generate(PROMPT)["output_ids"]
    assert rig.post("/flush_cache")[0] == 200
    assert rig.generate([*history, 3])["meta_info"]["cached_tokens"] == 0


BAD = [
    ({"max_new_token": 3}, "unknown sampling parameter 'max_new_token'"),
    ({"max_new_tokens": 0}, "max_new_tokens must be"),
    ({"max_new_tokens": "4"}, "max_new_tokens must be"),
    ({"max_new_tokens": SIZES.context}, "longer than the context of 120"),
    ({"temperature": -1}, "temperature must be"),
    ({"temperature": float("nan")}, "temperature must be"),
    ({"temperature": "hot"}, "temperature must be a number"),
    ({"top_p": 0}, "top_p must be"),
    ({"top_k": -2}, "top_k must be"),
    ({"n": 2}, "n is not supported"),
    ({"stop": ["x"]}, "stop is not supported"),
    ({"sampling_seed": 0.5}, "sampling_seed must be"),
    ({"stop_token_ids": [CFG.vocab_size]}, "stop_token_ids holds 60"),
]


@pytest.mark.parametrize(("sampling", "message"), BAD)
def test_bad_sampling_parameter_is_400_with_the_reason(rig: Rig, sampling, message: str) -> None:
    status, answer = rig.post("/generate", rig.body(PROMPT, **sampling))
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize(
    "ids",
    [None, [], "abc", 5, [[]], [True], [1.5], ["1"], [-1], [CFG.vocab_size], [2**40], [[1], [60]],
     [1] * 119, [[1], 2]],
)  # fmt: skip
def test_bad_prompt_is_400_and_the_engine_goes_on(rig: Rig, ids) -> None:
    before = rig.engine.scheduler.counters.requests
    status, answer = rig.post("/generate", rig.body(ids))
    assert status == 400
    assert isinstance(answer["error"], str)
    assert rig.engine.scheduler.counters.requests == before
    assert len(rig.generate(PROMPT)["output_ids"]) == 8


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"\xff", b"[" * 100_000, {"text": "hi"}, {"input_ids": [1], "rid": 5},
        {"input_ids": [[1], [2]], "rid": ["a"]}, {"input_ids": [1], "sampling_params": 3},
        {"input_ids": [1], "top_logprobs_num": 2}, {"input_ids": [1], "rid": ""},
    ],
)  # fmt: skip
def test_bad_body_is_400(rig: Rig, body) -> None:
    status, answer = rig.post("/generate", body)
    assert status == 400
    assert isinstance(answer["error"], str)


def test_longest_prompt_that_fits_is_served(rig: Rig) -> None:
    answer = rig.generate([4] * (SIZES.context - 2), max_new_tokens=2)
    assert len(answer["output_ids"]) == 2


def test_unknown_paths_and_methods_are_refused(rig: Rig) -> None:
    assert rig.get("/nothing")[0] == 404
    assert rig.get("/generate")[0] == 405


def test_info_pages_describe_the_served_weights(rig: Rig) -> None:
    sha256 = rig.update(1)["sha256"]
    for path in ("/model_info", "/get_model_info"):
        info = rig.get(path)[1]
        assert info["model_path"] == str(rig.saved(1))
        assert (info["weight_version"], info["sha256"]) == ("1", sha256)
        assert (info["vocab_size"], info["max_context"]) == (CFG.vocab_size, SIZES.context)
    server = rig.get("/get_server_info")[1]
    assert server["max_running_requests"] == SIZES.slots
    assert rig.get("/health")[0] == 200
    assert rig.get("/health_generate")[0] == 200


def test_batches_tell_what_the_device_did(rig: Rig) -> None:
    before = rig.get("/headrace/batches")[1]
    rig.generate(PROMPT, max_new_tokens=6)
    place = f"after={before['next']}&boot={before['boot']}"
    got = rig.get(f"/headrace/batches?{place}")[1]
    assert (got["next"], got["lost"]) == (before["next"] + 2, 0)
    assert (got["rows"], got["prefill"]) == ([1, 1], [1, 0])
    assert sum(got["tokens"]) == len(PROMPT) + 6
    assert all(0 < d < 60e9 for d in got["duration"])
    ends = [s + d for s, d in zip(got["start"], got["duration"], strict=True)]
    assert before["now"] <= got["start"][0] <= ends[0] <= got["start"][1] <= ends[1] <= got["now"]
    place = f"after={got['next']}&boot={got['boot']}"
    assert rig.get(f"/headrace/batches?{place}")[1]["start"] == []
    assert rig.get("/headrace/batches?after=10&boot=another")[1]["rows"][-2:] == [1, 1]
    assert rig.get("/headrace/batches?after=-1")[0] == 400


def test_trail_is_bounded_and_counts_what_was_missed() -> None:
    trail = Trail(3)
    for i in range(5):
        trail.add(0, i, 1, False)
    got = trail.since(1, trail.boot)
    assert (got["rows"], got["lost"], got["next"]) == ([2, 3, 4], 1, 5)
    assert trail.since(4, trail.boot)["rows"] == [4]
    assert trail.since(9, trail.boot)["rows"] == [2, 3, 4]


def test_metrics_count_what_happened(rig: Rig) -> None:
    def read() -> dict[str, float]:
        lines = [x for x in rig.get("/metrics")[1].splitlines() if not x.startswith("#")]
        return {x.split("{")[0]: float(x.rsplit(" ", 1)[1]) for x in lines}

    before = read()
    history = PROMPT + rig.generate(PROMPT, max_new_tokens=6)["output_ids"]
    after = read()
    again = rig.generate([*history, 3], max_new_tokens=1)["meta_info"]["cached_tokens"]
    assert again == len(history) - 1
    assert read()["sglang:cached_tokens_total"] - after["sglang:cached_tokens_total"] == again
    for name, change in {
        "sglang:prompt_tokens_total": 5,
        "headrace:paused": 0,
        "sglang:generation_tokens_total": 6,
        "sglang:num_requests_total": 1,
        "headrace:device_calls_total": 2,
    }.items():
        assert after[name] - before[name] == change, name
    assert {
        "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage",
        "sglang:cache_hit_rate", "sglang:gen_throughput",
    } <= after.keys()  # fmt: skip
    assert json.dumps(after)
