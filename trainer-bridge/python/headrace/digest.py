"""CRC-32C (Castagnoli) of large arrays in numpy: the digest a batch carries.

A CRC is linear over GF(2), so the bytes are cut into equal lanes that advance together, one table
look-up a step for all of them; neighbours are then merged by "append n zero bytes" operators. About
0.1 GB/s: for checks and tests, not for the hot path.
"""

from __future__ import annotations

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78
_LANE = 512


def crc32c(data: np.ndarray | bytes) -> int:
    """Return the CRC-32C of `data` (bytes, or an array of any contiguous dtype)."""
    octets = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else _octets(data)
    lanes = len(octets) // _LANE
    head = octets[: lanes * _LANE].reshape(lanes, _LANE)
    return _tail(octets[lanes * _LANE :], _merge(_advance(head)) ^ _prefix(lanes)) ^ 0xFFFFFFFF


def _octets(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def _prefix(lanes: int) -> int:
    """Return what the initial value 0xFFFFFFFF has become after `lanes` lanes."""
    return int(_zeros(np.array([0xFFFFFFFF], np.uint32), lanes * _LANE)[0])


def _advance(lanes: np.ndarray) -> np.ndarray:
    """Return the raw (zero-seeded) CRC of each row of `lanes`, u1 [n, _LANE] -> u4 [n]."""
    table = _table()
    crc = np.zeros(len(lanes), np.uint32)
    for column in np.ascontiguousarray(lanes.T):
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> np.uint32(8))
    return crc


def _merge(crcs: np.ndarray) -> int:
    """Return the raw CRC of the concatenated lanes by merging neighbours, halving each round."""
    nbytes = _LANE
    if len(crcs) == 0:
        return 0
    while len(crcs) > 1:
        if len(crcs) % 2:  # a lane of leading zeros changes no raw CRC
            crcs = np.concatenate([np.zeros(1, np.uint32), crcs])
        crcs = _zeros(crcs[0::2], nbytes) ^ crcs[1::2]
        nbytes *= 2
    return int(crcs[0])


def _tail(octets: np.ndarray, crc: int) -> int:
    table = _table()
    for octet in octets.tolist():
        crc = int(table[(crc ^ octet) & 0xFF]) ^ (crc >> 8)
    return crc


def _zeros(crcs: np.ndarray, nbytes: int) -> np.ndarray:
    """Return each CRC after `nbytes` zero bytes: one operator for each bit set in `nbytes`."""
    bit = 0
    while nbytes >> bit:
        if nbytes >> bit & 1:
            crcs = _apply(_operator(bit), crcs)
        bit += 1
    return crcs


def _apply(operator: np.ndarray, crcs: np.ndarray) -> np.ndarray:
    out = np.zeros_like(crcs)
    for i, column in enumerate(operator):
        out ^= np.where(crcs >> np.uint32(i) & np.uint32(1), column, np.uint32(0))
    return out


@functools.cache
def _operator(bit: int) -> np.ndarray:
    """Return the operator of 2**bit zero bytes: u4 [32], the image of each bit of a CRC."""
    if bit == 0:
        units = np.uint32(1) << np.arange(32, dtype=np.uint32)
        return _table()[units & 0xFF] ^ (units >> np.uint32(8))
    half = _operator(bit - 1)
    return _apply(half, half)


@functools.cache
def _table() -> np.ndarray:
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), crc >> np.uint32(1))
    return crc.astype(np.uint32)
