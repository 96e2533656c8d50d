"""Messages as bytes: what goes round, and that nothing malformed gets past `decode`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from australis.kernel.ids import MAX_BUCKET, RANK_BITS
from australis.kernel.machine import Message
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    NoSnapshot,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    StreamStatus,
    SubscriptionState,
    TentativeData,
)
from australis.protocols.dpc.states import State
from australis.runtime.node import wire
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.wire import Families, Family, NotSpoken, Wire, WireError
from australis.runtime.node.wire_dpc import DPC
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.schema import TIMESTAMP, Schema, parse_schema

pytestmark = pytest.mark.unit

BUCKETS = Buckets(100_000)
FULL = "k int, v string, at timestamp, d decimal(10,2), ok boolean, raw binary, p struct<x: double>"
SCHEMAS = {"s1": parse_schema(FULL), "counts": parse_schema("n bigint")}
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
FEWER = settings(MANY, max_examples=60)


WIRE = Wire("c", FAMILIES)


def heard(data: bytes) -> wire.Envelope:
    return WIRE.decode(data, SCHEMAS, BUCKETS)


def encode(cluster: str, sender: str, to: str, message: Message, cause: str = "") -> bytes:
    return Wire(cluster, FAMILIES).encode(sender, to, message, cause)


def said(message: Message) -> bytes:
    return encode("c", "a", "b", message)


def why(data: bytes) -> str:
    """What the sender is told."""
    with pytest.raises(WireError) as error:
        heard(data)
    return str(error.value)


def batch_of(
    rows: Sequence[dict[str, Any]], number: int, schema: Schema, *, first: int = 0
) -> pa.RecordBatch:
    """Rows as the tuples of a bucket."""
    start = BUCKETS.end(number) - BUCKETS.size_us + 1
    header = [
        pa.array(np.zeros(len(rows), np.int8)),
        pa.array((number << RANK_BITS) + first + np.arange(len(rows))),
        pa.array([start + i for i in range(len(rows))], pa.int64()).cast(TIMESTAMP),
    ]
    columns = [pa.array([r.get(f.name) for r in rows], f.arrow) for f in schema]
    return pa.RecordBatch.from_arrays([*header, *columns], schema=schema.arrow)


# --- strategies --------------------------------------------------------------------------------

small = st.integers(-1, 1000)
numbers = small | st.integers(-1, MAX_BUCKET)
counts = st.integers(0, 1 << 62)
incarnations = st.integers(0, 1 << 42)
times = st.integers(-END_OF_STREAM_US, END_OF_STREAM_US)
streams = st.sampled_from(sorted(SCHEMAS))
readers = st.sampled_from(["", "past", "now"])
yes = st.booleans()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
rows = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(-(2**31), 2**31 - 1),
        "v": st.none() | st.text(max_size=20),
        "at": st.none() | st.integers(0, 2**50).map(lambda us: EPOCH + timedelta(microseconds=us)),
        "d": st.none() | st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n) / 100),
        "ok": st.none() | st.booleans(),
        "raw": st.none() | st.binary(max_size=20),
        "p": st.none()
        | st.fixed_dictionaries({"x": st.none() | st.floats(allow_nan=False, width=32)}),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)


def bucket(stream: str, number: int) -> st.SearchStrategy[Bucket]:
    batches = st.lists(rows, min_size=1, max_size=5).map(
        lambda some: batch_of(some, number, SCHEMAS[stream])
    )
    return st.builds(Bucket, st.just(number), times, st.none() | batches)


@st.composite
def stable(draw: st.DrawFn) -> StableData:
    stream, after, length = draw(streams), draw(small), draw(st.integers(0, 4))
    upto = after + length
    listed = [n for n in range(after + 1, upto) if draw(yes)] + ([upto] if length else [])
    whole = tuple(draw(bucket(stream, number)) for number in listed)
    return StableData(
        *(stream, after, upto, whole, draw(yes), draw(yes), draw(readers)),
        incarnation=draw(incarnations),
    )


@st.composite
def tentative(draw: st.DrawFn) -> TentativeData:
    stream = draw(streams)
    return TentativeData(
        *(stream, draw(counts), draw(bucket(stream, draw(st.integers(0, 10**6)))), draw(readers)),
        incarnation=draw(incarnations),
    )


wants = st.builds(
    SubscriptionState, streams, yes, yes, yes, numbers, numbers, numbers, numbers, readers
)
statuses = st.builds(
    StreamStatus, streams, st.sampled_from(State), numbers, numbers, yes, restored_upto=numbers
)
control: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Heartbeat,
        incarnations,
        counts,
        st.lists(wants, max_size=4, unique_by=lambda w: (w.stream, w.reader)).map(tuple),
    ),
    st.builds(
        HeartbeatReply, incarnations, counts, st.lists(statuses, max_size=4).map(tuple), times
    ),
    st.builds(ReconcileRequest, counts),
    st.builds(ReconcileAnswer, counts, yes),
    st.builds(ReconcileDone, counts),
    st.builds(SnapshotRequest, streams),
    st.builds(NoSnapshot, streams, yes, numbers),
    st.builds(Snapshot, streams, numbers, times, st.just("a")),
)
messages: st.SearchStrategy[Message] = st.one_of(stable(), tentative(), control)
anything = st.recursive(
    st.none()
    | yes
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=10)
    | st.sampled_from(["Bucket", "StableData", "Heartbeat", "Want", "s1"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


# --- what goes round ---------------------------------------------------------------------------


@MANY
@given(messages, st.text(max_size=30))
def test_every_message_goes_round(message: Message, cause: str) -> None:
    data = encode("c", "a", "b@n", message, cause)
    found = heard(data)
    assert (found.sender, found.to) == ("a", "b@n")
    assert found.cause == cause
    assert type(found.message) is type(message)
    assert found.message == message


def test_all_that_is_spoken_is_checked() -> None:
    for kind, strict in DPC.messages.items():
        assert kind.__name__ == strict.__name__
        assert kind.__struct_fields__ == strict.__struct_fields__


class ReconcileRequest2(Message, frozen=True, array_like=True, tag="ReconcileRequest", gc=False):
    """A message that is called like one of DPC, and is not."""

    why: str


def test_two_families_may_have_messages_of_one_name() -> None:
    other = Family("other", 3, {ReconcileRequest2: ReconcileRequest2}, lambda m, *_: m)
    both = Wire("c", Families(DPC, other))
    for message in (ReconcileRequest(1), ReconcileRequest2("because")):
        found = both.decode(both.encode("a", "b", message), SCHEMAS, BUCKETS)
        assert found.message == message
        assert type(found.message) is type(message)


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("other", 2, "messages of the unknown family 'other'"),
        ("dpc", 2, f"version 2 of the family 'dpc'; this node speaks {DPC.version}"),
    ],
    ids=["another family", "another version"],
)
def test_what_is_not_spoken_is_said_and_is_no_attack(name: str, version: int, said: str) -> None:
    theirs = Family(name, version, {ReconcileRequest2: ReconcileRequest2}, lambda m, *_: m)
    data = Wire("c", Families(theirs)).encode("a", "b", ReconcileRequest2("because"))
    with pytest.raises(NotSpoken) as error:
        heard(data)
    assert str(error.value) == said


def test_an_envelope_of_another_version_is_no_attack() -> None:
    for version in (wire.VERSION - 1, wire.VERSION + 1):
        with pytest.raises(
            NotSpoken, match=rf"version {version} of the protocol; this node speaks"
        ):
            heard(b"\x98" + bytes([version]) + HEAD[2:] + b"\xc0")


def test_a_long_message_goes_round() -> None:
    some = [{"k": i, "v": "word" * 10} for i in range(20_000)]
    whole = Bucket(7, 1, batch_of(some, 7, SCHEMAS["s1"]))
    assert heard(said(TentativeData("s1", 1, whole))).message.bucket == whole  # type: ignore[union-attr]


# --- one clear sentence ------------------------------------------------------------------------

N7 = batch_of([{"n": 1}, {"n": 2}], 7, SCHEMAS["counts"])


def n7(**columns: Any) -> pa.RecordBatch:
    """Two tuples of bucket 7, with a column as it should not be."""
    batch = N7
    for name, values in columns.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema[at], pa.array(values, batch.schema[at].type))
    return batch


def with_tuples(batch: pa.RecordBatch | bytes, number: int = 7) -> bytes:
    return said(TentativeData("counts", 1, Bucket(number, 1, batch)))


def compressed(batch: pa.RecordBatch, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    data: bytes = reader.read_next_message().serialize().to_pybytes()
    return data


def log(after: int, upto: int, numbers: Iterable[int]) -> bytes:
    return said(StableData("counts", after, upto, tuple(Bucket(n, 1) for n in numbers)))


def wanting(**changes: Any) -> bytes:
    want = SubscriptionState("counts", True, True, False, 1, 1, 1, 5)
    return said(Heartbeat(1, 1, (msgspec.structs.replace(want, **changes),)))


def telling(**changes: Any) -> bytes:
    status = StreamStatus("counts", State.STABLE, 1, 5, True)
    return said(HeartbeatReply(1, 1, (msgspec.structs.replace(status, **changes),), 1))


WRAPPED = batch_of([{}] * 4, 7, SCHEMAS["counts"])
WRAPPED = WRAPPED.set_column(
    2, WRAPPED.schema[2], pa.array([700_001, -(2**63), -1, 700_002], TIMESTAMP)
)
"""Each difference of two times is positive, if one lets it overflow."""
HEAD = b"\x98%c\xa1c\xa1a\xa1b\xa0\xa3dpc%c" % (wire.VERSION, DPC.version)
"""An envelope up to its message."""
HUGE = 1 << 62
MALFORMED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not a message: Input data was truncated"),
    "text": (b"GET / HTTP/1.1\r\n\r\n", "not a message"),
    "no envelope": (msgspec.msgpack.encode({"a": 1}), "Expected `array`, got `object`"),
    "no version": (msgspec.msgpack.encode(["1", "c"]), "Expected `int`, got `str`"),
    "another version": (b"\x98\x01" + HEAD[2:] + b"\xc0", "version 1 of the protocol; this node"),
    "a huge version": (b"\x92\xcf" + b"\xff" * 8 + b"\xa1c", "version 18446744073709551615 of"),
    "another cluster": (encode("d", "a", "b", ReconcileDone(1)), "for cluster 'd', not for 'c'"),
    "a long cluster": (encode("d" * 10**6, "a", "b", ReconcileDone(1)), "cluster '" + "d" * 300 + " ...'"),
    "a long sender": (encode("c", "a" * 256, "b", ReconcileDone(1)), "length <= 255"),
    "no UTF-8": (b"\x92\x02\xa1\xff", "not a message: 'utf-8' codec can't decode"),
    "cut short": (said(ReconcileDone(1))[:-1], "truncated"),
    "more behind": (said(ReconcileDone(1)) + b"\x01", "trailing characters"),
    "more fields": (HEAD + msgspec.msgpack.encode(["ReconcileDone", 1, 2]), "at most length 1"),
    "no such message": (HEAD + msgspec.msgpack.encode(["Reboot", 1]), "Invalid value 'Reboot'"),
    "another type": (HEAD + msgspec.msgpack.encode(["ReconcileDone", "1"]), "Expected `int`, got"),
    "deep": (HEAD + b"\x91" * 10**6, "recursion"),
    "deep in a snapshot": (HEAD + b"\x95\xa8Snapshot\xa2s1\x01\x01" + b"\x91" * 10**6, "recursion"),
    "says it is long": (HEAD + b"\x94\xa9Heartbeat\x01\x01\xdd\xff\xff\xff\xff", "truncated"),
    "too many wants": (said(Heartbeat(1, 1, (SubscriptionState("s1", True, True, True, 1, 1, 1, 1),) * 1025)), "length <= 1024"),
    "a stream twice": (said(Heartbeat(1, 1, (SubscriptionState("s1", True, True, True, 1, 1, 1, 1),) * 2)), "wants a stream twice"),
    "wants of an unknown stream": (wanting(stream="x"), "of an unknown stream 'x'"),
    "status of an unknown stream": (telling(stream="x"), "of an unknown stream 'x'"),
    "tuples of an unknown stream": (said(StableData("x", 0, 0, ())), "of an unknown stream 'x'"),
    "have below": (wanting(have=-5), "Expected `int` >= -1"),
    "have beyond": (wanting(have=HUGE), "Expected `int` <= 549755813887"),
    "room beyond": (wanting(room=HUGE), "Expected `int` <= 549755813887"),
    "tentative below": (wanting(tentative=-HUGE), "Expected `int` >= -1"),
    "acknowledged beyond": (wanting(acknowledged=2**64 - 1), "Expected `int` <= 549755813887"),
    "trimmed beyond": (telling(trimmed_upto=HUGE), "Expected `int` <= 549755813887"),
    "end below": (telling(end=-2), "Expected `int` >= -1"),
    "no such state": (telling(state=9), "Invalid enum value 9"),
    "an incarnation too long": (said(Heartbeat(HUGE, 1, ())), "Expected `int` <= 4398046511104"),
    "an incarnation before": (said(Heartbeat(-1, 1, ())), "Expected `int` >= 0"),
    "a piece without end": (log(0, HUGE, ()), "Expected `int` <= 549755813887"),
    "a long piece": (log(0, MAX_BUCKET, ()), "whose last bucket is missing"),
    "a piece backwards": (log(5, 4, ()), "whose last bucket is missing"),
    "the last bucket missing": (log(4, 7, (5, 6)), "whose last bucket is missing"),
    "buckets too many": (log(4, 5, (5, 6)), "whose last bucket is missing"),
    "a log elsewhere": (said(StableData("counts", 4, 5, (Bucket(5, 1),), in_log=True)), "on this node"),
    "buckets twice": (log(4, 6, (5, 5)), "not in order"),
    "buckets of another piece": (log(4, 6, (7, 8)), "whose last bucket is missing"),
    "too many buckets": (log(-1, 1024, range(1025)), "length <= 1024"),
    "a far future": (with_tuples(b"", MAX_BUCKET + 1), "Expected `int` <= 549755813887"),
    "a late entry": (said(TentativeData("s1", 1, Bucket(7, HUGE))), "<= 253370764800000000"),
    "an early entry": (said(TentativeData("s1", 1, Bucket(7, -HUGE))), "Expected `int` >= -"),
    "a snapshot elsewhere": (said(Snapshot("s1", 1, 0, "evil")), "with another node"),
    "a snapshot inside": (said(Snapshot("s1", 1, 0, [1])), "Expected `str`, got `array`"),
    "no tuples": (with_tuples(b""), "not a message: End of Arrow stream"),
    "bytes for tuples": (with_tuples(b"\x00" * 64), "not a message: "),
    "a list for tuples": (said(TentativeData("s1", 1, Bucket(7, 1, [1]))), "Expected `bytes | null`"),
    "a schema for tuples": (with_tuples(N7.schema.serialize().to_pybytes()), "are no record batch"),
    "half of the tuples": (with_tuples(N7.serialize().to_pybytes()[:-20]), "Expected to be able to"),
    "lz4": (with_tuples(compressed(N7, "lz4")), "are compressed"),
    "zstd": (with_tuples(compressed(N7, "zstd")), "are compressed"),
    "another schema": (said(TentativeData("s1", 1, Bucket(7, 1, N7))), "not a message: "),
    "an empty batch": (with_tuples(N7.slice(0, 0)), "0 tuples in bucket 7"),
    "no ids": (with_tuples(n7(_id=[7 << RANK_BITS, None])), "without type, id or time"),
    "no times": (with_tuples(n7(_stime=[None, None])), "without type, id or time"),
    "boundaries": (with_tuples(n7(_type=[0, 2])), "that are no insertions"),
    "ids of another bucket": (with_tuples(N7, 8), "bucket 8 with ids of another"),
    "ids with gaps": (with_tuples(n7(_id=[7 << RANK_BITS, (7 << RANK_BITS) + 2])), "with ids of"),
    "out of order": (with_tuples(n7(_stime=[700_002, 700_001])), "that are out of order"),
    "before its piece": (log(4, 6, (4, 6)), "not in order"),
    "before its time": (with_tuples(n7(_stime=[700_000, 700_001])), "another time in bucket 7"),
    "after its time": (with_tuples(n7(_stime=[800_000, 800_001])), "another time in bucket 7"),
    "absurd times": (with_tuples(n7(_stime=[-(2**63), 2**63 - 1])), "another time in bucket 7"),
    "times that wrap around": (with_tuples(WRAPPED), "that are out of order"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_malformed_gets_one_sentence(kind: str) -> None:
    data, expected = MALFORMED[kind]
    told = why(data)
    assert expected in told
    assert "\n" not in told
    assert len(told) < 2 * wire.SENTENCE


def test_a_message_may_be_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_MESSAGE_BYTES", 1000)
    assert why(b"x" * 1001) == "a message of 1,001 bytes is longer than 1,000"


def test_times_at_the_edges_of_a_bucket() -> None:
    assert heard(with_tuples(n7(_stime=[700_001, 800_000])))


# --- buffers that lie --------------------------------------------------------------------------


def strings(*offsets: int) -> bytes:
    """Two tuples of a stream of strings, whose offsets are as given."""
    schema = SCHEMAS["s1"]
    batch = batch_of([{"v": "one"}, {"v": "two"}], 7, schema)
    data = batch.serialize().to_pybytes()
    right = struct.pack("<3i", 0, 3, 6)
    assert data.count(right) == 1
    wrong = data.replace(right, struct.pack("<3i", *offsets))
    return said(TentativeData("s1", 1, Bucket(7, 1, wrong)))


def test_offsets_of_strings_stay_within_their_batch() -> None:
    assert heard(strings(0, 3, 6))
    for offsets in [(0, 3, 1 << 30), (0, 5, 3), (-8, 3, 6), (0, -1, 6), (1 << 30, 3, 6)]:
        assert "not a message" in why(strings(*offsets))


def test_strings_are_text() -> None:
    data = batch_of([{"v": "éé"}], 7, SCHEMAS["s1"]).serialize().to_pybytes()
    wrong = data.replace("éé".encode(), b"\xff\xfe\xfd\xfc")
    assert "UTF8" in why(said(TentativeData("s1", 1, Bucket(7, 1, wrong))))


def test_decimals_have_the_digits_of_their_type() -> None:
    data = batch_of([{"d": Decimal("12345678.90")}], 7, SCHEMAS["s1"]).serialize().to_pybytes()
    right = (1234567890).to_bytes(16, "little")
    assert data.count(right) == 1
    wrong = data.replace(right, (10**30).to_bytes(16, "little"))
    assert "not a message" in why(said(TentativeData("s1", 1, Bucket(7, 1, wrong))))


# --- fuzz --------------------------------------------------------------------------------------


def harmless(data: bytes) -> None:
    """It is a message all of which can be read, or a `WireError` in one sentence."""
    told = ""
    try:
        message = heard(data).message
    except WireError as error:
        told = str(error)
    if told:
        assert len(told) < 2 * wire.SENTENCE
        assert "\n" not in told
        return
    assert said(message)
    found = message.buckets if isinstance(message, StableData) else ()
    found += (message.bucket,) if isinstance(message, TentativeData) else ()
    for one in found:
        if one.batch is not None:
            assert (
                one.batch.take(pa.array(range(one.batch.num_rows))).num_rows == one.batch.num_rows
            )


@MANY
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes(data: bytes, headed: bool) -> None:
    harmless(HEAD + data if headed else data)


@MANY
@given(messages, st.data())
def test_bytes_that_were_changed(message: Message, data: st.DataObject) -> None:
    bad = bytearray(said(message))
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] ^= data.draw(st.integers(1, 255))
    harmless(bytes(bad))


@MANY
@given(stable() | tentative(), st.data())
def test_tuples_that_were_changed(message: Message, data: st.DataObject) -> None:
    found = message.buckets if isinstance(message, StableData) else (message.bucket,)  # type: ignore[attr-defined]
    batches = [b.batch.serialize().to_pybytes() for b in found if b.batch is not None]
    assume(batches)
    good = said(message)
    at = good.index(batches[0])
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[at + data.draw(st.integers(0, len(batches[0]) - 1))] ^= data.draw(st.integers(1, 255))
    harmless(bytes(bad))


@FEWER
@given(messages, st.data())
def test_bytes_that_were_cut_off(message: Message, data: st.DataObject) -> None:
    whole = said(message)
    assert why(whole[: data.draw(st.integers(0, len(whole) - 1))])


@MANY
@given(messages, st.data())
def test_a_part_that_is_something_else(message: Message, data: st.DataObject) -> None:
    parts = msgspec.msgpack.decode(said(message))
    at = parts
    while data.draw(st.booleans()) and any(isinstance(part, list) and part for part in at):
        at = data.draw(st.sampled_from([p for p in at if isinstance(p, list) and p]))
    at[data.draw(st.integers(0, len(at) - 1))] = data.draw(anything)
    harmless(msgspec.msgpack.encode(parts))


@MANY
@given(anything)
def test_msgpack_of_anything(value: Any) -> None:
    harmless(msgspec.msgpack.encode(value))
    harmless(HEAD + msgspec.msgpack.encode(value))
