"""What Go merges of a JAX profile, read with the classes of Perfetto's own package."""

from __future__ import annotations

from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from tests.test_perfetto import STORY, Trace, unknown_fields

JAX = STORY.parent / "jax.pftrace"
BEGAN = 1_800_000_000_000_000_000  # of the profile's clock, as its marks say


def packets(path: Path) -> pb.Trace:
    message = pb.Trace()
    message.ParseFromString(path.read_bytes())
    return message


def test_profile_is_a_process_with_its_threads(tmp_path: Path) -> None:
    message = packets(JAX)
    for packet in message.packet:
        assert unknown_fields(packet) == 0, packet
        packet.trusted_packet_sequence_id = 1  # what the reader of the tests wants
    path = tmp_path / "jax.pftrace"
    path.write_bytes(message.SerializeToString())
    trace = Trace(path)
    assert [trace.title(u) for u in sorted(trace.tracks)] == [
        "trainer (JAX)", "trainer (JAX)//host:CPU python", "trainer (JAX)//host:CPU tf_XLA",
    ]  # fmt: skip
    got = [(s.name, s.depth, s.start - BEGAN, s.end - BEGAN) for s in trace.slices]
    assert got == [
        ("train step", 0, 20_000, 120_000),
        ("PjitFunction(f)", 1, 30_000, 70_000),
        ("fusion.1", 0, 35_000, 95_000),
    ]
    assert trace.named("train step")[0].args == {"step_num": "3"}


def test_nothing_of_it_meets_what_a_trace_has() -> None:
    ours, jax = packets(STORY), packets(JAX)
    for of in (
        lambda m: {p.trusted_packet_sequence_id for p in m.packet},
        lambda m: {p.track_descriptor.uuid for p in m.packet if p.HasField("track_descriptor")},
        lambda m: {p.track_descriptor.process.pid for p in m.packet} - {0},
    ):
        assert of(ours)
        assert of(jax)
        assert not of(ours) & of(jax)
