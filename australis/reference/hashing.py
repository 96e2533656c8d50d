"""Spark's `xxhash64`, by which Split deals out tuples.

XXH64 of each value's bytes; the seed of the first is 42, that of every other the
hash before it. NULL leaves the hash as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from australis.reference import types as t
from australis.reference.expressions import Compiled, Run
from australis.reference.numbers import wrap
from australis.streams.schema import TIMESTAMP

_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MASK = 2**64 - 1
_SEED = 42
_LONG_DIGITS = 18

ToBytes = Callable[[Any], bytes]


def xxhash64(values: Sequence[Compiled]) -> Run:
    """The hash of some expressions, as a bigint."""
    parts = [(value.run, to_hash(value.kind)) for value in values]

    def run(row: Any) -> int:
        seed = _SEED
        for part, fold in parts:
            value = part(row)
            if value is not None:
                seed = fold(value, seed)
        return wrap(seed, 64)

    return run


def to_hash(kind: pa.DataType) -> Callable[[Any, int], int]:
    """How a value of this type enters a hash."""
    if pa.types.is_struct(kind):
        folds = [to_hash(field.type) for field in kind]

        def fold(value: Any, seed: int) -> int:
            for child, fold_child in zip(value, folds, strict=True):
                if child is not None:
                    seed = fold_child(child, seed)
            return seed

        return fold
    to_bytes = _to_bytes(kind)
    return lambda value, seed: xxh64(to_bytes(value), seed)


def _to_bytes(kind: pa.DataType) -> ToBytes:
    if kind in (t.BIGINT, TIMESTAMP) or (t.is_decimal(kind) and kind.precision <= _LONG_DIGITS):
        return struct.Struct("<q").pack
    if t.is_integral(kind) or kind in (t.BOOLEAN, t.DATE):
        return struct.Struct("<i").pack
    if t.is_decimal(kind):
        # The fewest bytes that hold it, as Java's BigInteger gives them.
        return lambda v: v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True)
    if t.is_float(kind):
        pack = struct.Struct("<d" if kind == t.DOUBLE else "<f").pack
        return lambda v: pack(v + 0.0 if v == v else float("nan"))
    if kind == t.STRING:
        return lambda v: bytes(v.encode())
    return bytes


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 of some bytes, without sign.

    >>> hex(xxh64(b"", 0)), hex(xxh64(b"abc", 0))
    ('0xef46db3751d8e999', '0x44bc2cf5ad770999')
    """
    n, at = len(data), 0
    if n >= 32:
        result, at = _stripes(data, seed)
    else:
        result = (seed + _P5) & _MASK
    result = (result + n) & _MASK
    while at + 8 <= n:
        result ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        result = (_rotate(result, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= n:
        result ^= (int.from_bytes(data[at : at + 4], "little") * _P1) & _MASK
        result = (_rotate(result, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        result ^= (byte * _P5) & _MASK
        result = (_rotate(result, 11) * _P1) & _MASK
    return _avalanche(result)


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """The whole blocks of 32 bytes, and where they end."""
    lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
    at = 0
    while at + 32 <= len(data):
        words = struct.unpack_from("<4Q", data, at)
        lanes = [_round(lane & _MASK, word) for lane, word in zip(lanes, words, strict=True)]
        at += 32
    turns = (1, 7, 12, 18)
    result = sum(_rotate(lane, turn) for lane, turn in zip(lanes, turns, strict=True)) & _MASK
    for lane in lanes:
        result = ((result ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return result, at


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _round(lane: int, word: int) -> int:
    return (_rotate((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def _avalanche(value: int) -> int:
    value = ((value ^ (value >> 33)) * _P2) & _MASK
    value = ((value ^ (value >> 29)) * _P3) & _MASK
    return value ^ (value >> 32)
