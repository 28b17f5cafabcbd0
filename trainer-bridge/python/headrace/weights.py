"""Weights on disk: aligned safetensors in version directories that appear whole or not at all.

A version directory (`v000012-1/`: policy version, publication) holds `config.json` and
`model.safetensors`. The writer pads the header so that the data and every tensor start on 64 bytes,
which any safetensors reader accepts and which lets `load` hand out views of the mapped file. A
directory is written under a temporary name, synced, and renamed: a reader that finds it finds all.

Layout of a safetensors file: u64 little-endian header length; header, a JSON object from tensor
name to {"dtype", "shape", "data_offsets": [begin, end]} padded with spaces; data.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import mmap
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from headrace.model import ModelConfig, shapes

CONFIG, MODEL = "config.json", "model.safetensors"
Put = Callable[[bytes | memoryview], None]
_ALIGN = 64
_MAX_HEADER = 100_000_000  # the limit of the safetensors library
_FILLER = "_filler."  # names of byte tensors that align what follows them
_VERSION_DIR = re.compile(r"v(\d{6,})-(\d+)")
_TEMPORARY_DIR = re.compile(r"\.v\d{6,}-\d+-")


class WeightsError(ValueError):
    """A weights directory that is torn, foreign, or not what was asked for."""


class FileInfo(TypedDict):
    """One file of a version directory, as the WEIGHTS event lists it; sha256 in lower-case hex."""

    name: str
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Loaded:
    """Weights read from disk.

    `params` are read-only views of the mapped file: copy them before the file may be rewritten in
    place (this module never does). `sha256` is that of `model.safetensors` as mapped.
    """

    params: dict[str, np.ndarray]
    cfg: ModelConfig
    sha256: str


def version_dir(version: int, publication: int = 1) -> str:
    """Return the name of a version directory, such as `v000012-1`."""
    return f"v{version:06d}-{publication}"


def save(
    root: str | os.PathLike[str],
    name: str,
    params: Mapping[str, ArrayLike],
    cfg: ModelConfig,
) -> tuple[Path, list[FileInfo]]:
    """Publish `params` (float32) as directory `name` under `root`; return it and its files.

    The checksums are taken from the bytes on their way to the disk. A directory of that name that
    exists already is left as it is and raises FileExistsError.
    """
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    final = root / name
    if final.exists():
        raise FileExistsError(f"weights directory {final} exists already")
    temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
    try:
        temporary.chmod(0o755)
        files = [_write_config(temporary / CONFIG, cfg), _write_model(temporary / MODEL, params)]
        _sync_dir(temporary)
        os.rename(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_dir(root)
    return final, files


def _write_config(path: Path, cfg: ModelConfig) -> FileInfo:
    text = json.dumps(cfg.to_json(), indent=2) + "\n"
    return _write(path, lambda put: put(text.encode()))


def _write_model(path: Path, params: Mapping[str, ArrayLike]) -> FileInfo:
    arrays = _with_filler({k: np.ascontiguousarray(v, dtype="<f4") for k, v in params.items()})
    header, offset = dict[str, Any](), 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": "F32" if array.dtype == np.float32 else "U8",
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGN)

    def content(put: Put) -> None:
        put(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            put(array.reshape(-1).view(np.uint8).data)

    return _write(path, content)


def _with_filler(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Fill up tensors that do not end on 64 bytes with byte tensors: the format allows no gaps."""
    out: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        out[name] = array
        if gap := -array.nbytes % _ALIGN:
            out[f"{_FILLER}{name}"] = np.zeros(gap, np.uint8)
    return out


def _write(path: Path, content: Callable[[Put], None]) -> FileInfo:
    """Create a file from what `content` puts, synced, with the checksum of those very bytes."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb", buffering=0) as file:

        def put(part: bytes | memoryview) -> None:
            nonlocal size
            digest.update(part)
            view = memoryview(part)
            size += len(view)
            while view:
                view = view[file.write(view) :]

        content(put)
        os.fsync(file.fileno())
    return {"name": path.name, "bytes": size, "sha256": digest.hexdigest()}


def _sync_dir(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def load(path: str | os.PathLike[str]) -> Loaded:
    """Map the weights of a version directory without copying them.

    Raises WeightsError, naming the file and what is wrong with it, if the directory is not whole,
    does not hold exactly the parameters of its config, or holds them in another type or shape.
    """
    path = Path(path)
    try:
        cfg = ModelConfig.read(path)
    except ValueError as e:
        raise WeightsError(str(e)) from e
    file = path / MODEL
    data = _map(file)
    header, start = _read_header(file, data)
    params = {
        name: _view(file, data, start, name, shape, header) for name, shape in shapes(cfg).items()
    }
    extra = sorted(n for n in header if n not in params and not n.startswith(_FILLER))
    if extra:
        raise WeightsError(f"load {file}: parameters this model does not have: {', '.join(extra)}")
    return Loaded(params, cfg, hashlib.sha256(data).hexdigest())


def _map(file: Path) -> mmap.mmap:
    try:
        with file.open("rb") as f:
            return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as e:  # ValueError: the file is empty
        raise WeightsError(f"load {file}: {e}") from e


def _read_header(file: Path, data: mmap.mmap) -> tuple[dict[str, Any], int]:
    """Parse the header, whose tensors must fill the data exactly; return it and the data offset."""
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else 0
    start = 8 + length
    if not 2 <= length <= _MAX_HEADER or start > len(data):
        raise WeightsError(f"load {file}: not a whole safetensors file ({len(data)} bytes)")
    try:
        header = json.loads(data[8:start])
        header.pop("__metadata__", None)
        offsets = [t["data_offsets"] for t in header.values()]
        spans = sorted((int(begin), int(stop)) for begin, stop in offsets)
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise WeightsError(f"load {file}: header is not that of a safetensors file: {e}") from e
    end = 0
    for begin, stop in spans:
        if begin != end or stop < begin:
            raise WeightsError(f"load {file}: tensors overlap or leave a gap at byte {end}")
        end = stop
    if start + end != len(data):
        raise WeightsError(
            f"load {file}: header promises {start + end} bytes, the file has {len(data)}"
        )
    return header, start


def _view(
    file: Path,
    data: mmap.mmap,
    start: int,
    name: str,
    shape: tuple[int, ...],
    header: Mapping[str, Any],
) -> np.ndarray:
    tensor = header.get(name)
    if tensor is None:
        raise WeightsError(f"load {file}: parameter {name} is missing")
    if tensor.get("dtype") != "F32" or tensor.get("shape") != list(shape):
        found = f"{tensor.get('dtype')} {tensor.get('shape')}"
        raise WeightsError(f"load {file}: {name} is {found}, the model needs F32 {list(shape)}")
    begin, stop = tensor["data_offsets"]
    count = math.prod(shape)
    if stop - begin != 4 * count:
        raise WeightsError(f"load {file}: {name} has {stop - begin} bytes for {count} numbers")
    return np.frombuffer(data, "<f4", count, start + begin).reshape(shape)


def prune(
    root: str | os.PathLike[str], keep: int, newest: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Delete all but the newest `keep` version directories of `root`; return what was deleted.

    `newest` is the directory published last: higher versions are of a trainer that died ahead of
    its checkpoint, and go first. Other files are left alone, save temporary directories of a
    version: their writer died. Arrays that are still mapped stay valid. Call it from the one
    process that writes into `root`.
    """
    last = _VERSION_DIR.fullmatch(Path(newest).name) if newest is not None else None
    entries = list(Path(root).iterdir())
    versions = [
        ((int(m[1]), int(m[2])), p) for p in entries if (m := _VERSION_DIR.fullmatch(p.name))
    ]
    top = (int(last[1]), int(last[2])) if last else max((v for v, _ in versions), default=(0, 0))
    versions.sort(key=lambda found: (found[0] <= top, found[0]))
    gone = [p for _, p in versions[: max(0, len(versions) - keep)]]
    gone += [p for p in entries if _TEMPORARY_DIR.match(p.name)]
    for path in gone:
        shutil.rmtree(path)
    return gone
