"""CRC-32C against the published check value and a bit-by-bit reference."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.digest import crc32c


def bitwise(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@given(st.integers(0, 5 * 512), st.integers(0, 2**32 - 1))
def test_equals_the_bitwise_definition(nbytes: int, seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)
    assert crc32c(data) == bitwise(data.tobytes())


def test_any_dtype_is_its_bytes() -> None:
    x = np.arange(1000, dtype=np.float32).reshape(10, 100)
    assert crc32c(x) == crc32c(x.tobytes())
