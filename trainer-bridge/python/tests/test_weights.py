import hashlib
import json
import os
import struct
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from headrace import model, weights
from headrace.model import ModelConfig

CFG = ModelConfig(vocab_size=31, d_model=24, layers=1, heads=2, d_ff=20)


def numpy_params(cfg: ModelConfig = CFG, seed: int = 0) -> dict[str, np.ndarray]:
    return {k: np.asarray(v) for k, v in model.init(jax.random.key(seed), cfg).items()}


def save(root: Path, version: int = 1) -> Path:
    return weights.save(root, weights.version_dir(version), numpy_params(), CFG)[0]


def test_loaded_weights_equal_those_saved(tmp_path: Path) -> None:
    params = numpy_params()
    path, files = weights.save(tmp_path, weights.version_dir(12), params, CFG)
    loaded = weights.load(path)
    assert path.name == "v000012-1"
    assert loaded.cfg == CFG
    assert loaded.params.keys() == params.keys()
    for name, array in params.items():
        np.testing.assert_array_equal(loaded.params[name], array)
    assert loaded.sha256 == {f["name"]: f["sha256"] for f in files}["model.safetensors"]


def test_listed_files_are_what_lies_on_the_disk(tmp_path: Path) -> None:
    path, files = weights.save(tmp_path, "v000001-1", numpy_params(), CFG)
    assert {f["name"] for f in files} == {p.name for p in path.iterdir()}
    for info in files:
        data = (path / info["name"]).read_bytes()
        assert info["bytes"] == len(data)
        assert info["sha256"] == hashlib.sha256(data).hexdigest()
    assert os.listdir(tmp_path) == ["v000001-1"]


def test_safetensors_library_reads_our_file(tmp_path: Path) -> None:
    read = load_file(save(tmp_path) / "model.safetensors")
    for name, array in numpy_params().items():
        np.testing.assert_array_equal(read[name], array)


def test_every_tensor_starts_on_64_bytes_and_is_a_view_of_the_map(tmp_path: Path) -> None:
    loaded = weights.load(save(tmp_path))
    for name, array in loaded.params.items():
        assert array.ctypes.data % 64 == 0, name
        assert not array.flags.owndata
        assert not array.flags.writeable


def test_file_of_the_safetensors_library_loads(tmp_path: Path) -> None:
    path = save(tmp_path)
    save_file(numpy_params(seed=3), path / "model.safetensors")
    np.testing.assert_array_equal(weights.load(path).params["head"], numpy_params(seed=3)["head"])


def test_an_existing_version_is_never_overwritten(tmp_path: Path) -> None:
    before = weights.load(save(tmp_path)).sha256
    with pytest.raises(FileExistsError):
        save(tmp_path)
    assert weights.load(tmp_path / "v000001-1").sha256 == before
    assert os.listdir(tmp_path) == ["v000001-1"]


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        weights.save(tmp_path, "v000001-1", {"head": np.array(["x"])}, CFG)
    assert os.listdir(tmp_path) == []


def test_prune_keeps_the_newest_and_what_is_not_ours(tmp_path: Path) -> None:
    for version in (1, 2, 10):
        save(tmp_path, version)
    (tmp_path / "notes").mkdir()
    (tmp_path / ".v000011-1-dead").mkdir()
    held = weights.load(tmp_path / "v000001-1")
    gone = weights.prune(tmp_path, keep=1)
    assert sorted(p.name for p in gone) == [".v000011-1-dead", "v000001-1", "v000002-1"]
    assert sorted(os.listdir(tmp_path)) == ["notes", "v000010-1"]
    np.testing.assert_array_equal(held.params["head"], numpy_params()["head"])


def test_prune_after_a_resume_keeps_what_was_just_published(tmp_path: Path) -> None:
    for version in (1, 2, 8, 9, 10):  # of a trainer that died; its checkpoint holds step 2
        save(tmp_path, version)
    path, _ = weights.save(tmp_path, weights.version_dir(2, 2), numpy_params(), CFG)
    weights.prune(tmp_path, keep=3, newest=path)
    assert sorted(os.listdir(tmp_path)) == ["v000001-1", "v000002-1", "v000002-2"]


def edit_header(path: Path, edit) -> None:
    file = path / "model.safetensors"
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


BAD_HEADERS = {
    "parameter norm is missing": lambda h: h.update(other=h.pop("norm")),
    "does not have: other": lambda h: h.update(other={**h["norm"], "data_offsets": [0, 0]}),
    "needs F32": lambda h: h["norm"].update(dtype="BF16"),
    r"norm is F32 \[23\]": lambda h: h["norm"].update(shape=[23]),
    "overlap or leave a gap": lambda h: h["norm"].update(data_offsets=[4, 100]),
    "not that of a safetensors file": lambda h: h["norm"].update(data_offsets="no"),
    "header promises": lambda h: h.pop("_filler.head"),
}


@pytest.mark.parametrize("message", BAD_HEADERS)
def test_foreign_header_is_refused_by_name(tmp_path: Path, message: str) -> None:
    path = save(tmp_path)
    edit_header(path, BAD_HEADERS[message])
    with pytest.raises(weights.WeightsError, match=message):
        weights.load(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_truncation_is_refused(tmp_path_factory, data) -> None:
    path = save(tmp_path_factory.mktemp("w"))
    file = path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(weights.WeightsError):
        weights.load(path)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(tmp_path_factory, data) -> None:
    path = save(tmp_path_factory.mktemp("w"))
    (path / "model.safetensors").write_bytes(data)
    with pytest.raises(weights.WeightsError):
        weights.load(path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "read model config"),
        ("[]", "not a JSON object"),
        ('{"architecture":"llama"}', "'llama' is not"),
        ('{"architecture":"headrace-decoder"}', "vocab_size is missing"),
        ('{"architecture":"headrace-decoder","vocab_size":-1}', "positive integer"),
        ('{"architecture":"headrace-decoder","vocab_size":9,"heads":3}', "even heads"),
        ('{"architecture":"headrace-decoder","vocab_size":9,"pad_id":9}', "outside"),
    ],
)
def test_bad_config_is_refused(tmp_path: Path, config: str, message: str) -> None:
    path = save(tmp_path)
    (path / "config.json").write_text(config)
    with pytest.raises(weights.WeightsError, match=message):
        weights.load(path)
