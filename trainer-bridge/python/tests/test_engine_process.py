"""The engine as a child process."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.__main__ import row_buckets
from headrace.model import ModelConfig

CFG = ModelConfig(vocab_size=40, d_model=16, layers=1, heads=1, d_ff=16, max_context=24)


@pytest.fixture(name="child")
def _child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "config.json").write_text(json.dumps(CFG.to_json()))
    arguments = [
        "--model-path",
        str(tmp_path),
        "--port",
        "0",
        "--port-file",
        str(tmp_path / "port"),
    ]
    arguments += ["--slots", "4", "--max-rows", "4", "--exit-with-parent"]
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.engine", *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert child.stderr is not None
    for line in child.stderr:
        if "listening" in line:
            break
    yield child
    if child.poll() is None:
        child.kill()
    child.wait()
    child.stderr.close()


def test_it_tells_its_port_and_waits_for_weights(child, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{int((tmp_path / 'port').read_text())}"
    assert urllib.request.urlopen(url + "/health").status == 200
    for path, data in (("/health_generate", None), ("/generate", b'{"input_ids":[1]}')):
        with pytest.raises(urllib.error.HTTPError) as e:
            urllib.request.urlopen(url + path, data)
        assert e.value.code == 503
        assert json.loads(e.value.read())["error"] == "no weights"
        e.value.close()
    child.stdin.close()
    assert child.wait(20) == 0


def test_it_ends_on_sigterm(child) -> None:
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 0


def test_a_bad_model_folder_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.engine", "--model-path", str(tmp_path), "--port", "0"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "read model config" in done.stderr


@pytest.mark.parametrize(
    ("most", "buckets"),
    [(1, (1,)), (8, (8,)), (20, (8, 20)), (64, (8, 32, 64)), (256, (8, 32, 64, 128, 256))],
)
def test_row_buckets_end_at_the_most_asked_for(most: int, buckets: tuple[int, ...]) -> None:
    assert row_buckets(most) == buckets
