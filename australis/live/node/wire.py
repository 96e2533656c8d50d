"""Messages between nodes as bytes.

An envelope is msgpack: the version of the protocol, the cluster, who says it to whom,
and a message of `protocols`, whose types say what is well-formed. Arrow batches travel
inside as IPC messages without their schema, which both sides know by the stream's name.
No pickle, and nothing is trusted before it was decoded into its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from australis.kernel.errors import AustralisError
from australis.kernel.machine import Message
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    TentativeData,
)
from australis.streams.schema import Schema

VERSION = 1
"""Nodes of different versions do not talk to each other."""
LARGEST = 256 << 20
"""No message is longer than this; pieces of a log are cut to far less."""

Spoken = (
    Heartbeat
    | HeartbeatReply
    | StableData
    | TentativeData
    | ReconcileRequest
    | ReconcileAnswer
    | ReconcileDone
    | SnapshotRequest
    | Snapshot
)
"""Everything one node may say to another."""


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """One message on its way."""

    version: int
    cluster: str
    sender: str
    """The machine that says it; the node it runs on is known from the connection."""
    to: str
    cause: str
    """The entry in the sender's trace that led to it."""
    message: Spoken


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """What is looked at first, so that a stranger is told what is wrong."""

    version: int
    cluster: str


class WireError(AustralisError):
    """Bytes that are not a message of this cluster; the sender is told why."""


def _hook(value: Any) -> bytes:
    if isinstance(value, pa.RecordBatch):
        data: bytes = value.serialize().to_pybytes()
        return data
    raise NotImplementedError(f"{type(value).__name__} does not travel")


_encoder = msgspec.msgpack.Encoder(enc_hook=_hook)
_heads = msgspec.msgpack.Decoder(_Head, strict=True)
_envelopes = msgspec.msgpack.Decoder(Envelope, strict=True)


def encode(cluster: str, sender: str, to: str, message: Message, cause: str = "") -> bytes:
    """A message as bytes."""
    return _encoder.encode([VERSION, cluster, sender, to, cause, message])


def decode(data: bytes, cluster: str, schemas: Mapping[str, Schema]) -> Envelope:
    """The message that these bytes are; a `WireError` in one sentence if they are none."""
    if len(data) > LARGEST:
        raise WireError(f"a message of {len(data):,} bytes is longer than {LARGEST:,}")
    try:
        head = _heads.decode(data)
    except msgspec.DecodeError as error:
        raise WireError(f"not a message: {error}") from None
    if head.version != VERSION:
        raise WireError(f"version {head.version} of the protocol; this node speaks {VERSION}")
    if head.cluster != cluster:
        raise WireError(f"a message for cluster '{head.cluster}'; this node is of '{cluster}'")
    try:
        envelope = _envelopes.decode(data)
        return msgspec.structs.replace(envelope, message=_whole(envelope.message, schemas))
    except (msgspec.DecodeError, pa.ArrowException, OSError) as error:
        raise WireError(f"a malformed message: {error}") from None


def _whole(message: Spoken, schemas: Mapping[str, Schema]) -> Spoken:
    """The message with its batches as Arrow batches again."""
    match message:
        case StableData(stream=stream, buckets=buckets):
            schema = _schema(stream, schemas)
            whole = tuple(_with_batch(bucket, schema) for bucket in buckets)
            if [b.number for b in whole] != list(range(message.after + 1, message.upto + 1)):
                raise WireError("a piece of a log with buckets missing")
            return msgspec.structs.replace(message, buckets=whole)
        case TentativeData(stream=stream, bucket=bucket):
            return msgspec.structs.replace(
                message, bucket=_with_batch(bucket, _schema(stream, schemas))
            )
    return message


def _schema(stream: str, schemas: Mapping[str, Schema]) -> pa.Schema:
    if stream not in schemas:
        raise WireError(f"tuples of an unknown stream '{stream}'")
    return schemas[stream].arrow


def _with_batch(bucket: Bucket, schema: pa.Schema) -> Bucket:
    if bucket.batch is None:
        return bucket
    if not isinstance(bucket.batch, bytes):
        raise WireError("a bucket whose tuples are no record batch")
    batch = pa.ipc.read_record_batch(pa.py_buffer(bucket.batch), schema)
    batch.validate()
    return msgspec.structs.replace(bucket, batch=batch)
