"""The golden vectors of ``subjects/testdata`` read without any Go: bodies, index entries, messages.

What docs/wire.md says is enough to read and write them, its worked example included.
"""

import json
import re
import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "subjects" / "testdata" / "v1"
BODIES = sorted(p.stem for p in VECTORS.glob("*.index"))
MESSAGES = sorted(p.stem for p in VECTORS.glob("*.msgpack") if p.stem not in BODIES)


def unpack(name: str) -> dict[str, Any]:
    return msgpack.unpackb((VECTORS / f"{name}.msgpack").read_bytes(), strict_map_key=True)


def described(name: str) -> dict[str, Any]:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def array(value: bytes, dtype: str, width: int = 1) -> np.ndarray:
    """Return the little-endian array of a ``bin`` value, shape [n] or [n, width]."""
    flat = np.frombuffer(value, dtype=dtype)
    return flat.reshape(-1, width) if width > 1 else flat


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit: slow, but independent of any library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_there_are_vectors_of_every_kind() -> None:
    assert BODIES == ["bare", "failed", "fork", "greedy", "plain", "tool"]
    assert MESSAGES == [
        "ack", "checkpoint", "commit", "end", "entry", "gauges", "holding", "leased_task", "purged",
        "resumed", "spans", "stall", "task", "version",
    ]  # fmt: skip


SCALARS = {
    "k": "Kind", "g": "Group", "s": "Slot", "a": "Attempt", "rd": "Round", "env": "Environment",
    "seed": "Seed", "prod": "Producer", "eng": "Engine", "tok": "Tokenizer", "st": "Status",
    "why": "Reason", "r": "Reward",
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_body_holds_what_its_description_says(name: str) -> None:
    body, want = unpack(name), described(name)
    assert body["v"] == 1
    for key, field in SCALARS.items():
        assert body[key] == want[field], field
        assert type(body[key]) is type(want[field]) or key == "r"
    assert body["time"] == [want["Started"], want["Finished"]]
    assert body["rc"] == (want["Components"] or {})
    assert {k: v for k, v in body["sp"].items() if v or k not in ("top_p", "top_k")} == want[
        "Sampling"
    ]
    assert body["msgs"] == (want["Messages"] or [])


@pytest.mark.parametrize("name", ["tool"])
def test_task_is_json_in_utf8(name: str) -> None:
    assert json.loads(unpack(name)["task"]) == {"question": "7 \u00d7 6 = ?"}


@pytest.mark.parametrize("name", BODIES)
def test_segments_are_arrays_of_the_stated_types(name: str) -> None:
    segments, want = unpack(name)["seg"], described(name)["Segments"] or []
    assert len(segments) == len(want)
    for got, segment in zip(segments, want, strict=True):
        np.testing.assert_array_equal(array(got["ids"], "<i4"), segment["Tokens"])
        np.testing.assert_array_equal(
            array(got["lp"], "<f4"), np.asarray(segment["Logprobs"], np.float32)
        )
        versions = [[v["Start"], v["End"], v["Version"]] for v in segment["Versions"]]
        np.testing.assert_array_equal(array(got["ver"], "<i4", 3), versions)
        mask = [[m["Start"], m["End"]] for m in segment["LossMask"]]
        np.testing.assert_array_equal(array(got["mask"], "<i4", 2), mask)
        assert (got["par"], got["sh"]) == (segment["Parent"], segment["Shared"])
        assert len(got["lp"]) // 4 == sum(end - start for start, end, _ in versions)


@pytest.mark.parametrize("name", BODIES)
def test_turns_are_columns(name: str) -> None:
    turns, want = unpack(name)["turns"], described(name)["Turns"] or []
    assert turns["fin"] == [t["Finish"] for t in want]
    columns = {
        "seg": array(turns["seg"], "<i4").tolist(),
        "p": array(turns["p"], "<i4", 2).tolist(),
        "c": array(turns["c"], "<i4", 2).tolist(),
        "t": array(turns["t"], "<i8", 3).tolist(),
        "hit": array(turns["hit"], "<i4").tolist(),
        "r": array(turns["r"], "<f8").tolist(),
    }
    for i, t in enumerate(want):
        assert columns["seg"][i] == t["Segment"]
        assert columns["p"][i] == [t["Prompt"]["Start"], t["Prompt"]["End"]]
        assert columns["c"][i] == [t["Completion"]["Start"], t["Completion"]["End"]]
        assert columns["t"][i] == [t["Queued"], t["Generated"], t["Stepped"]]
        assert (columns["hit"][i], columns["r"][i]) == (t["Cached"], t["Reward"])


INDEX = [
    "version", "kind", "group", "slot", "attempt", "round", "status", "reward", "segments",
    "tokens", "longest", "trainable", "min_version", "max_version", "greedy", "environment",
    "offset", "length", "checksum",
]  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_index_entry_follows_from_the_body(name: str) -> None:
    raw, body = (VECTORS / f"{name}.msgpack").read_bytes(), unpack(name)
    fields = dict(zip(INDEX, (VECTORS / f"{name}.index").read_text().split(), strict=True))
    assert fields == dict(zip(INDEX, index_entry(body, raw).split(), strict=True))


def index_entry(body: dict[str, Any], raw: bytes, offset: int = 0) -> str:
    """Return the text of a body's ``Hr-Ix`` header."""
    lengths = [len(s["ids"]) // 4 for s in body["seg"]]
    masks = [array(s["mask"], "<i4", 2) for s in body["seg"]]
    versions = [int(v) for s in body["seg"] for v in array(s["ver"], "<i4", 3)[:, 2]]
    reward = body["r"]
    return " ".join(
        str(x)
        for x in (
            1, body["k"], body["g"], body["s"], body["a"], body["rd"], body["st"],
            int(reward) if reward == int(reward) else reward, len(lengths), sum(lengths),
            max(lengths, default=0), sum(int((m[:, 1] - m[:, 0]).sum()) for m in masks),
            min(versions, default=-1), max(versions, default=-1),
            int(body["sp"]["temperature"] == 0), body["env"], offset, len(raw),
            f"{crc32c(raw):x}",
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_message_holds_the_values_of_its_description(name: str) -> None:
    """Keys are short on the wire and long in JSON; the order of the fields is the same."""
    compare(unpack(name), described(name), name)


def compare(got: Any, want: Any, where: str) -> None:
    if isinstance(want, dict):
        got = dict(got)
        if where == "entry":
            assert got.pop("state") == b"\x00\x01\xff"  # opaque, left out of the JSON
        assert len(got) == len(want), where
        free = where.endswith(("values", "metrics"))  # names of the user's: sorted on the wire
        pairs = sorted(got.items()) if free else got.items()
        for (key, value), (name, expected) in zip(pairs, want.items(), strict=True):
            assert not free or key == name
            compare(value, expected, f"{where}.{name}")
    elif isinstance(want, list):
        assert len(got) == len(want), where
        for i, (value, expected) in enumerate(zip(got, want, strict=True)):
            compare(value, expected, f"{where}[{i}]")
    elif want is None:
        assert got == [], where
    elif isinstance(got, bytes):
        assert where == "task.data"  # Go's JSON has it in base64
        assert json.loads(got) == {"size": 4}
    else:
        assert got == want, where


def test_worked_example_of_the_documentation_writes_the_golden_body() -> None:
    text = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(# encode\.py.*?)```", text, re.DOTALL)
    assert code is not None
    scope: dict[str, Any] = {}
    exec(compile(code[1], "docs/wire.md", "exec"), scope)
    body = scope["body"]
    fields = msgpack.unpackb(body)
    assert index_entry({"rd": 0, **fields}, body) == scope["entry"]
    assert struct.unpack("<5i", fields["seg"][0]["ids"]) == (1, 14, 15, 7, 2)
    assert (ROOT / "subjects" / "testdata" / "wire_example.txt").read_text() == (
        f"{body.hex()}\n{scope['entry']}\n"
    )


def test_hex_dump_of_the_documentation_is_the_golden_body() -> None:
    text = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")
    block = re.search(r"```text hexdump bare\n(.*?)```", text, re.DOTALL)
    assert block is not None
    dumped = "".join(line.split("|")[0] for line in block[1].splitlines())
    assert bytes.fromhex(dumped) == (VECTORS / "bare.msgpack").read_bytes()
