"""The golden exports: the table, read by pyarrow, says what the lossless form does.

They are of a run with a fork, tool calls, a failure before the first token, and text that is not
ASCII.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from atif import Trajectory

Records = dict[str, dict[str, Any]]
SCALARS = [
    "kind",
    "group",
    "slot",
    "environment",
    "task",
    "env_seed",
    "producer",
    "status",
    "reason",
    "reward",
]
NO_FATE = {"outcome": "", "member": False, "masked": False, "step": 0, "advantage": 0.0}
FORMS = Path(__file__).resolve().parents[3] / "consumers" / "export" / "testdata" / "v2"


@pytest.fixture(scope="module")
def records() -> Records:
    """Return the trajectories of the lossless form, by id."""
    header, *lines = (FORMS / "world.jsonl").read_bytes().splitlines()
    assert json.loads(header)["headrace_export"] == 2
    return {r["id"]: r for r in map(json.loads, lines) if "event" not in r}


@pytest.fixture(scope="module")
def table() -> Any:
    return pq.read_table(FORMS / "world.parquet")


def positions(spans: list[list[int]]) -> list[int]:
    """Return the token positions that spans cover."""
    return [i for start, end, *_ in spans for i in range(start, end)]


def test_table_has_a_row_for_each_segment_and_each_trajectory(table: Any, records: Records) -> None:
    assert len(records) == 8
    assert table.num_rows == sum(max(1, len(r["segments"])) for r in records.values())
    assert {row["id"] for row in table.to_pylist()} == set(records)
    assert any(row["segment"] == 1 and row["shared"] == 4 for row in table.to_pylist())
    assert any(row["segment"] == -1 and row["status"] == "failed" for row in table.to_pylist())


def test_columns_have_the_types_that_are_documented(table: Any) -> None:
    types = {field.name: field.type for field in table.schema}
    assert types["input_ids"].value_type == pa.int32()
    assert types["logprobs"].value_type == pa.float32()
    assert types["started"] == pa.timestamp("ns", tz="UTC")
    assert pa.types.is_string(types["task"])


def test_rows_say_what_the_lossless_form_does(table: Any, records: Records) -> None:
    for row in table.to_pylist():
        r = records[row["id"]]
        for name in SCALARS:
            assert row[name] == r[name], name
        assert {c["name"]: c["value"] for c in row["components"]} == r["components"]
        assert [(m["role"], m["content"], m["name"]) for m in row["messages"]] == [
            (m["role"], m["content"], m.get("name", "")) for m in r["messages"]
        ]
        assert len(row["turns"]) == len(r["turns"])
        fate = r["fate"] or NO_FATE
        assert {name: row[name] for name in NO_FATE} == {name: fate[name] for name in NO_FATE}


def test_tokens_are_those_of_the_segment(table: Any, records: Records) -> None:
    for row in table.to_pylist():
        if row["segment"] < 0:
            assert not row["input_ids"]
            assert not row["logprobs"]
            continue
        s = records[row["id"]]["segments"][row["segment"]]
        assert row["input_ids"] == s["tokens"]
        sampled = positions(s["versions"])
        np.testing.assert_array_equal(
            np.asarray([row["logprobs"][i] for i in sampled], dtype=np.float32),
            np.asarray(s["logprobs"], dtype=np.float32),
        )
        assert [i for i, v in enumerate(row["policy_versions"]) if v >= 0] == sampled
        assert [i for i, m in enumerate(row["loss_mask"]) if m] == positions(s["loss_mask"])


def test_atif_is_what_its_models_read(records: Records) -> None:
    """`atif` has the models of the format's own project."""
    lines = (FORMS / "world.atif.jsonl").read_bytes().splitlines()
    for line, record in zip(lines, records.values(), strict=True):
        t = Trajectory.model_validate_json(line)
        assert t.schema_version == "ATIF-v1.7"
        assert t.trajectory_id == record["id"]
        agent = [s for s in t.steps if s.source == "agent"]
        assert [bool(s.tool_calls) for s in agent if s.tool_calls] == [True] * sum(
            m["role"] == "assistant" and "<tool_call>" in m["content"] for m in record["messages"]
        )
        ids = [s.metrics.completion_token_ids for s in agent if s.metrics is not None]
        turns = [
            record["segments"][u["segment"]]["tokens"][slice(*u["completion"])]
            for u in record["turns"]
        ]
        assert ids == turns
