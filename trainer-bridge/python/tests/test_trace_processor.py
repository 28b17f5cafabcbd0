"""Traces that Go wrote, opened by the program that people open them with: trace_processor.

A run is played and traced here, so it is today's program that is checked. HEADRACE_TRACE_PROCESSOR
names a trace_processor_shell; without it the perfetto package downloads the one it was made with.
Where neither can be had the same questions go to Perfetto's protobuf classes, and the test says so:
nothing is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

from tests.test_perfetto import ROOT, STORY, Trace

RECIPE = """
name: traced
environment:
  name: frozenlake
  params: {map: random, size: 4, holes: 0.15, min_distance: 2, max_turns: 6}
dataset:
  eval_seeds: {first: 0, count: 8}
producer: {episodes: 32}
grouper:
  {group_size: 4, groups_per_batch: 4, zero_variance: keep, evaluation: {every: 3, tasks: 8}}
bridge: {buckets: [160], rows: 16}
model: {d_model: 32, layers: 1, heads: 2, d_ff: 64}
demonstrations: {episodes: 200, skill: 0.5}
trainer: {steps: 4, micro_batch: 16, checkpoint_every: 2, warm_start: {steps: 30, batch: 24}}
engine: {slots: 32}
"""


class Reader(Protocol):
    """What is asked of a trace, whoever reads it."""

    def complaints(self) -> list[str]: ...
    def slices(self) -> int: ...
    def seconds(self, name: str) -> float: ...
    def inside(self, name: str) -> dict[str, int]: ...
    def counters(self) -> set[str]: ...
    def trained(self) -> dict[str, set[int]]: ...


class Sql:
    """Asks trace_processor."""

    def __init__(self, tp: TraceProcessor) -> None:
        self.tp = tp

    def rows(self, sql: str) -> list[Any]:
        return list(self.tp.query(sql))

    def complaints(self) -> list[str]:
        """Whatever its importer did not like: parse errors, slices misplaced or dropped, losses."""
        bad = self.rows(
            "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
        )
        return [f"{r.name}: {r.value}" for r in bad] + [
            f"slice {r.name} never ends" for r in self.rows("SELECT name FROM slice WHERE dur < 0")
        ]

    def slices(self) -> int:
        return self.rows("SELECT COUNT(*) AS n FROM slice")[0].n

    def seconds(self, name: str) -> float:
        rows = self.rows(f"SELECT SUM(dur) / 1e9 AS s FROM slice WHERE name = '{name}'")
        return rows[0].s or 0.0

    def inside(self, name: str) -> dict[str, int]:
        rows = self.rows(
            "SELECT c.name AS name, COUNT(*) AS n FROM slice c JOIN slice p ON c.parent_id = p.id"
            f" WHERE p.name = '{name}' AND c.ts >= p.ts AND c.ts + c.dur <= p.ts + p.dur"
            " GROUP BY 1"
        )
        return {r.name: r.n for r in rows}

    def counters(self) -> set[str]:
        rows = self.rows(
            "SELECT DISTINCT p.name || '/' || t.name AS name FROM counter"
            " JOIN process_counter_track t ON t.id = counter.track_id JOIN process p USING (upid)"
        )
        return {r.name for r in rows}

    def trained(self) -> dict[str, set[int]]:
        rows = self.rows(
            """
            WITH RECURSIVE way(origin, at) AS (
              SELECT id, id FROM slice WHERE name = 'episode'
              UNION SELECT way.origin, flow.slice_in FROM way JOIN flow ON flow.slice_out = way.at
            )
            SELECT EXTRACT_ARG(e.arg_set_id, 'debug.id') AS id,
                   EXTRACT_ARG(t.arg_set_id, 'debug.step') AS step
            FROM way JOIN slice e ON e.id = way.origin
                     JOIN slice t ON t.id = way.at AND t.name = 'train step'
            """
        )
        used: dict[str, set[int]] = defaultdict(set)
        for r in rows:
            used[r.id].add(r.step)
        return used


class Classes:
    """Asks Perfetto's protobuf classes, where trace_processor cannot be had."""

    def __init__(self, path: Path) -> None:
        self.trace = Trace(path)  # refuses what an importer would complain of

    def complaints(self) -> list[str]:
        return [f"slice {s.name} never ends" for s in self.trace.slices if s.end < s.start]

    def slices(self) -> int:
        return len(self.trace.slices)

    def seconds(self, name: str) -> float:
        return sum(s.end - s.start for s in self.trace.named(name)) / 1e9

    def inside(self, name: str) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        above: dict[str, list[Any]] = defaultdict(list)
        for s in self.trace.slices:
            stack = above[s.track]
            del stack[s.depth :]
            if stack and stack[-1].name == name:
                assert stack[-1].start <= s.start <= s.end <= stack[-1].end
                found[s.name] += 1
            stack.append(s)
        return dict(found)

    def counters(self) -> set[str]:
        return set(self.trace.counters)

    def trained(self) -> dict[str, set[int]]:
        steps: dict[int, int] = {}
        for s in self.trace.named("train step"):
            for flow in s.ends:
                steps[flow] = s.args["step"]
        used: dict[str, set[int]] = defaultdict(set)
        for e in self.trace.named("episode"):
            for flow in e.flows:
                if flow in steps:
                    used[e.args["id"]].add(steps[flow])
        return used


_why_not: str | None = None


def open_trace(path: Path) -> Reader:
    """Open a trace with trace_processor, or say why not and read it all the same."""
    global _why_not
    program = os.environ.get("HEADRACE_TRACE_PROCESSOR")
    if program or _why_not is None:
        try:
            config = TraceProcessorConfig(bin_path=program or None, load_timeout=120)
            return Sql(TraceProcessor(trace=str(path), config=config))
        except Exception as err:  # whatever a download dies of
            if program:
                raise  # somebody wants this one
            _why_not = f"{type(err).__name__}: {err}"
    return Classes(path)


def say(reader: Reader, path: Path) -> None:
    used = "trace_processor" if isinstance(reader, Sql) else f"protobuf classes ({_why_not})"
    print(f"{path.name} is read with {used}", file=sys.__stderr__)  # past pytest's capture


@dataclass
class Run:
    trace: Path
    report: dict[str, Any]  # of `headrace trace`
    shown: dict[str, Any]  # by `headrace top`


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Play a run of a few steps and trace it."""
    folder = tmp_path_factory.mktemp("traced")
    program = os.environ.get("HEADRACE_BIN") or str(ROOT / "bin" / "headrace")
    if not Path(program).exists():
        program = str(folder / "headrace")
        go = shutil.which("go")
        assert go, "neither HEADRACE_BIN nor bin/headrace nor Go is there: run `make build`"
        subprocess.run([go, "build", "-o", program, "./cmd/headrace"], cwd=ROOT, check=True)
    recipe, path = folder / "recipe.yaml", folder / "run.pftrace"
    recipe.write_text(RECIPE)

    def headrace(*args: str) -> str:
        env = os.environ | {"HEADRACE_PYTHON": sys.executable}
        done = subprocess.run(
            [program, *args], cwd=folder, env=env, text=True, capture_output=True, timeout=600
        )
        assert done.returncode == 0, f"headrace {' '.join(args)}\n{done.stderr[-4000:]}"
        return done.stdout

    headrace("up", str(recipe), "--run", "t1")
    report = headrace("trace", "t1", "--last", "1h", "-o", str(path), "--json")
    shown = headrace("top", "t1", "--json", "--once")
    return Run(path, json.loads(report), json.loads(shown))


@pytest.fixture(scope="module")
def reader(run: Run) -> Iterator[Reader]:
    r = open_trace(run.trace)
    say(r, run.trace)
    yield r
    if isinstance(r, Sql):
        r.tp.close()


def test_the_story_opens_and_its_flows_lead_to_its_steps() -> None:
    r = open_trace(STORY)
    say(r, STORY)
    assert r.complaints() == []
    assert r.slices() == len(Trace(STORY).slices)
    assert r.trained() == {
        **{f"t0/{slot}/0": {1} for slot in range(3)},
        **{f"t2/{slot}/0": {2} for slot in range(3)},
    }
    assert r.seconds("wait for batch") == pytest.approx(1.93)
    assert r.seconds("train step") == pytest.approx(1.86)
    if isinstance(r, Sql):
        r.tp.close()


def test_a_run_opens_without_a_complaint(run: Run, reader: Reader) -> None:
    assert reader.complaints() == []
    assert reader.slices() == len(Trace(run.trace).slices)


def test_the_trainers_idle_time_is_what_top_shows(run: Run, reader: Reader) -> None:
    shown = run.shown["trainer"]["seconds"]
    assert reader.seconds("wait for batch") == pytest.approx(shown["wait"], rel=0.05, abs=0.02)
    trained = shown["train"] + shown["compile"]
    assert reader.seconds("train step") == pytest.approx(trained, rel=0.05, abs=0.02)
    assert reader.seconds("wait for batch") == pytest.approx(run.report["wait_seconds"], rel=0.001)


def test_every_trajectory_leads_to_the_step_that_trained_on_it(run: Run, reader: Reader) -> None:
    used = reader.trained()
    assert len(used) == run.shown["trajectories"]["trained"] == 4 * 16
    per_step: dict[int, int] = defaultdict(int)
    for steps in used.values():
        assert len(steps) == 1
        per_step[next(iter(steps))] += 1
    assert per_step == {1: 16, 2: 16, 3: 16, 4: 16}


def test_slices_nest(run: Run, reader: Reader) -> None:
    episode, turn = reader.inside("episode"), reader.inside("turn")
    played = run.report["trajectories"]
    assert episode["turn"] >= played
    assert episode["reset"] == episode["publish"] == played
    assert turn["generate"] == turn["step"] == episode["turn"]
    assert turn["parse"] > 0
    sync = reader.inside("weight sync")
    assert {"pause", "load", "verify", "resume"} <= set(sync)


def test_every_role_has_its_counters(reader: Reader) -> None:
    counters = reader.counters()
    assert "producer local/episodes_live" in counters
    assert "grouper up/open_groups" in counters
    assert any(c.startswith("bridge ") and c.endswith("/batches_ready") for c in counters)
    assert {"engine engine-0/running", "engine engine-0/tokens_sampled"} <= counters


def test_every_role_has_its_spans(reader: Reader) -> None:
    for name in (
        "train step", "prepare", "start", "publish weights", "checkpoint",
        "build batch", "trainer waits", "batch", "fold", "publish ledger", "issue tasks",
    ):  # fmt: skip
        assert reader.seconds(name) > 0, name
