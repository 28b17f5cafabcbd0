"""Traces that Go wrote, read with the classes of Perfetto's own package.

What is read the way trace_processor reads it: packets in the order of their times, slices as a
stack a track, names by the numbers that the sequence gave them, flows from slice to slice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "consumers" / "perfetto" / "testdata" / "sample.pftrace"
STORY = ROOT / "consumers" / "trace" / "testdata" / "story.pftrace"
T0 = 1_750_000_000_000_000_000
MS = 1_000_000


@dataclass
class Slice:
    name: str
    category: str
    track: str
    start: int
    end: int = -1
    depth: int = 0
    args: dict[str, Any] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class Trace:
    """A trace as its reader sees it; anything a reader would complain of fails the test."""

    def __init__(self, path: Path) -> None:
        self.raw = path.read_bytes()
        message = pb.Trace()
        message.ParseFromString(self.raw)
        self.packets = list(message.packet)
        self.tracks: dict[int, Any] = {}
        self.slices: list[Slice] = []
        self.counters: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._names: dict[str, dict[int, str]] = defaultdict(dict)
        self._open: dict[int, list[Slice]] = defaultdict(list)
        events = [self._decode(i, p) for i, p in enumerate(self.packets)]
        for at, event, names in sorted((e for e in events if e), key=lambda e: e[0]):
            self._event(at, event, names)
        assert not any(self._open.values()), "slices that never end"

    def _decode(self, i: int, p: Any) -> Any:
        assert p.trusted_packet_sequence_id == 1
        assert bool(p.sequence_flags & 1) == p.first_packet_on_sequence == (i == 0)
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            assert d.uuid not in self.tracks, "described twice"
            assert not d.HasField("parent_uuid") or d.parent_uuid in self.tracks
            self.tracks[d.uuid] = d
        for entries in ("event_categories", "event_names", "debug_annotation_names"):
            for entry in getattr(p.interned_data, entries):
                assert entry.iid not in self._names[entries]
                self._names[entries][entry.iid] = entry.name
        if not p.HasField("track_event"):
            return None
        assert p.sequence_flags & 2, "an event whose names a reader may not look up"
        assert p.track_event.track_uuid in self.tracks, "an event on no track"
        return p.timestamp, p.track_event, {k: dict(v) for k, v in self._names.items()}

    def title(self, uuid: int) -> str:
        d = self.tracks[uuid]
        name = d.process.process_name or d.thread.thread_name or d.name
        return f"{self.title(d.parent_uuid)}/{name}" if d.parent_uuid else name

    def _event(self, at: int, e: Any, names: dict[str, dict[int, str]]) -> None:
        stack, title = self._open[e.track_uuid], self.title(e.track_uuid)
        kinds = type(e)
        if e.type == kinds.TYPE_COUNTER:
            assert self.tracks[e.track_uuid].HasField("counter")
            self.counters[title].append((at, e.double_counter_value))
            return
        if e.type == kinds.TYPE_SLICE_END:
            stack.pop().end = at
            return
        args = {}
        for a in e.debug_annotations:
            value = getattr(a, a.WhichOneof("value"))
            args[names["debug_annotation_names"][a.name_iid]] = value
        category = names["event_categories"][e.category_iids[0]] if e.category_iids else ""
        s = Slice(
            names["event_names"][e.name_iid], category, title, at, depth=len(stack), args=args,
            flows=list(e.flow_ids), ends=list(e.terminating_flow_ids),
        )  # fmt: skip
        self.slices.append(s)
        if e.type == kinds.TYPE_SLICE_BEGIN:
            stack.append(s)
        else:
            assert e.type == kinds.TYPE_INSTANT
            s.end = at

    def named(self, name: str) -> list[Slice]:
        return [s for s in self.slices if s.name == name]


def unknown_fields(message: Any) -> int:
    """Count the fields of a message, and of those in it, that its schema does not have."""
    return len(message.SerializeToString()) - len(_stripped(message).SerializeToString())


def _stripped(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return copy


@pytest.fixture(scope="module")
def story() -> Trace:
    return Trace(STORY)


@pytest.mark.parametrize("path", [SAMPLE, STORY], ids=["sample", "story"])
def test_every_field_is_one_that_perfetto_knows(path: Path) -> None:
    trace = Trace(path)
    assert len(trace.packets) > 10
    for packet in trace.packets:
        assert unknown_fields(packet) == 0, packet


def test_sample_is_read_as_it_was_meant() -> None:
    trace = Trace(SAMPLE)
    assert [trace.title(u) for u in sorted(trace.tracks)] == [
        "producer p1", "producer p1/publish", "producer p1/episodes", "producer p1/episodes",
        "producer p1/live_episodes",
    ]  # fmt: skip
    assert [trace.tracks[u].sibling_order_rank for u in (3, 4)] == [1, -2]
    assert trace.tracks[1].child_ordering == pb.TrackDescriptor.EXPLICIT
    episode, second = trace.named("episode")
    assert episode.args == {"id": "t1/0/0 \u2713", "seed": -42, "reward": 0.5, "greedy": True}
    assert (episode.start, episode.end, episode.category) == (T0, T0 + 400, "rollout")
    assert episode.flows == [2**64 - 1, 7]
    assert second.start == second.end
    (generate,) = trace.named("generate")
    assert (generate.depth, generate.start, generate.end) == (1, T0 + 100, T0 + 300)
    (publish,) = trace.named("publish")
    assert publish.ends == [2**64 - 1]
    assert trace.counters == {"producer p1/live_episodes": [(T0, 2.5), (T0 + 400, -1.0)]}
    clocks = {c.clock_id: c.timestamp for c in trace.packets[0].clock_snapshot.clocks}
    assert clocks == {6: T0, 1: T0}


def test_story_has_a_process_a_role(story: Trace) -> None:
    processes = [d.process.process_name for d in story.tracks.values() if d.HasField("process")]
    assert processes == [
        "grouper g1", "producer p1", "producer p2", "engine eng-0", "bridge b1", "trainer rank0",
        "watchdog g1",
    ]  # fmt: skip
    pids = [d.process.pid for d in story.tracks.values() if d.HasField("process")]
    assert sorted(pids) == list(range(1, 8))


def test_episodes_hold_turns_that_hold_generation_and_step(story: Trace) -> None:
    episodes = story.named("episode")
    assert len(episodes) == 6  # those of the two batches
    for e in episodes:
        inside = [s for s in story.slices if s.track == e.track and e.start <= s.start < e.end]
        if e.args["id"] == "t0/0/0":  # of which the producer told more
            assert [s.name for s in inside] == [
                "episode", "reset", "turn", "queue", "generate", "parse", "step",
                "turn", "generate", "step", "reward", "publish", "acknowledge",
            ]  # fmt: skip
            assert sum(s.end - s.start for s in inside if s.name == "generate") == 660 * MS
            continue
        assert [s.name for s in inside] == [
            "episode", "reset", *["turn", "generate", "step"] * 2, "reward",
        ]  # fmt: skip
        assert [s.depth for s in inside] == [0, 1] + [1, 2, 2] * 2 + [1]
        assert all(s.end <= e.end for s in inside)
        assert sum(s.end - s.start for s in inside if s.name == "generate") == 680 * MS
    tracks = {e.track for e in episodes}
    assert tracks >= {"producer p1/episodes 1", "producer p1/episodes 2"}


def test_flows_lead_from_a_trajectory_to_the_step_that_trained_on_it(story: Trace) -> None:
    trained = {t.args["step"]: t.ends for t in story.named("train step") if t.ends}
    assert {k: len(v) for k, v in trained.items()} == {1: 3, 2: 3}
    for step, group in ((1, "t0"), (2, "t2")):
        for slot in range(3):
            (e,) = (x for x in story.named("episode") if x.args["id"] == f"{group}/{slot}/0")
            (flow,) = e.flows
            assert flow == fnv1a(f"{group}/{slot}/0".encode())
            way = [s for s in story.slices if flow in s.flows + s.ends and s.name != "feed"]
            assert [s.name for s in way] == ["episode", "close", "batch", "train step"]
            assert way[2].args["step"] == way[3].args["step"] == step
    dropped = {fnv1a(f"t1/{slot}/0".encode()) for slot in range(3)}
    assert not dropped & {f for s in story.slices for f in s.flows + s.ends}


def fnv1a(data: bytes) -> int:
    h = 14695981039346656037
    for c in data:
        h = ((h ^ c) * 1099511628211) % 2**64
    return h


def test_the_trainers_time_is_told_by_its_spans_and_else_by_its_commits(story: Trace) -> None:
    (start,) = story.named("start")  # of step 1, which has no spans
    assert (start.end - start.start, start.args["step"]) == (1500 * MS, 1)
    (wait,) = story.named("wait for batch")
    assert math.isclose((wait.end - wait.start) / 1e9, 1.93)
    steps = story.named("train step")
    assert [(s.args["step"], s.args.get("loss")) for s in steps] == [(1, 0.5), (2, None), (2, 0.5)]
    assert {s.track for s in [start, wait, *steps]} == {"trainer rank0/steps"}
    (compiled,) = story.named("compile")
    assert compiled.track == "trainer rank0/compile"


def test_the_rest_is_where_it_belongs(story: Trace) -> None:
    (sync,) = story.named("weight sync")
    phases = [s for s in story.slices if s.track == sync.track and s.depth == 1]
    assert [s.name for s in phases] == ["pause", "load", "verify", "resume"]
    assert [(p.end - p.start) // MS for p in phases] == [50, 200, 100, 10]
    (batch,) = (s for s in story.named("batch") if s.category == "engine")
    assert batch.track == "engine eng-0/batches"
    assert [s.name for s in story.slices if s.track == "grouper g1/work"] == ["fold", "decide"]
    assert (sync.end, phases[-1].end) == (T0 + 3000 * MS, sync.end)
    assert [s.args["group"] for s in story.slices if s.name in ("kept", "zero_variance")] == [
        "t0", "t1", "t2",
    ]  # fmt: skip
    (stall,) = story.named("slots_leased")
    assert (stall.start, stall.end) == (T0 + 1000 * MS, T0 + 4000 * MS)
    assert story.counters["producer p1/live_episodes"] == [
        (T0 + i * 1000 * MS, 2.0 * i) for i in range(3)
    ]
    (feed,), (rows,) = story.named("feed"), story.named("write rows")
    assert (feed.start, feed.end, feed.depth) == (T0 + 1501 * MS, T0 + 1551 * MS, 0)
    assert (rows.depth, feed.args) == (1, {"rows": 3.0})
