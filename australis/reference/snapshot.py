"""States as bytes, for a disk: MessagePack with a version."""

from __future__ import annotations

from typing import Any

import msgspec

from australis.kernel.errors import Stopped

_VERSION = 1
_BIG, _SET, _MAP = 1, 2, 3
_INT64 = range(-(2**63), 2**63)


def encode(upto: int, nodes: tuple[Any, ...]) -> bytes:
    """The bytes of a state; equal states have equal bytes."""
    return msgspec.msgpack.encode([_VERSION, upto, _plain(nodes)])


def decode(data: bytes) -> tuple[int, tuple[Any, ...]]:
    """The state that `encode` wrote; `Stopped` if another version wrote it."""
    version, upto, nodes = msgspec.msgpack.decode(data, ext_hook=_extended)
    if version != _VERSION:
        raise Stopped(f"a snapshot has version {version}; this engine reads version {_VERSION}")
    return upto, _tuples(nodes)


def _plain(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value not in _INT64:
        size = value.bit_length() // 8 + 1
        return msgspec.msgpack.Ext(_BIG, value.to_bytes(size, "little", signed=True))
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, frozenset):
        parts = sorted(msgspec.msgpack.encode(_plain(part)) for part in value)
        return msgspec.msgpack.Ext(_SET, msgspec.msgpack.encode(parts))
    if isinstance(value, dict):
        pairs = sorted(
            (msgspec.msgpack.encode(_plain(k)), msgspec.msgpack.encode(_plain(v)))
            for k, v in value.items()
        )
        return msgspec.msgpack.Ext(_MAP, msgspec.msgpack.encode(pairs))
    return value


def _extended(code: int, data: memoryview) -> Any:
    if code == _BIG:
        return int.from_bytes(data, "little", signed=True)
    if code == _SET:
        return frozenset(_read(part) for part in msgspec.msgpack.decode(data))
    assert code == _MAP, "a snapshot holds no other extension"
    return {_read(k): _read(v) for k, v in msgspec.msgpack.decode(data)}


def _read(data: bytes) -> Any:
    return _tuples(msgspec.msgpack.decode(data, ext_hook=_extended))


def _tuples(value: Any) -> Any:
    return tuple([_tuples(part) for part in value]) if isinstance(value, list) else value
