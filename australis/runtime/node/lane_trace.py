"""What a node's trace records of tentative tuples: enough to compute them anew.

Every fork with the bucket after which it begins, every release with what there was of each input
and what the lane was given, and what lanes said and consumers received, with what is missing in it.
Tuples stand there as their digest: a reader that knows the sources' tuples can compute the rest
(`scenarios.replayed`). Beside them stands what machines announce: states that are lost, and logs
that differ, and how logs grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from msgspec import to_builtins

from australis.kernel.machine import Effect, Event, Machine, MessageReceived
from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceLoss,
    BucketClosed,
    ForkLane,
    RunTentative,
    SkipAhead,
    SnapshotInstalled,
    StableDone,
    Started,
    TentativeDone,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import TentativeData, reader_key
from australis.protocols.dpc.missing import Missing, Run
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.spans import Span

IN_LOG = "log"
"""Stands for stable tuples that the lane reads from a log of its own node."""


def digest(batch: Any) -> str:
    """The digest of a bucket's tuples; empty if it has none.

    >>> digest(None)
    ''
    """
    if batch is None or not batch.num_rows:
        return ""
    rows = [tuple(row.values()) for row in batch.to_pylist()]
    return blake2b(repr(rows).encode(), digest_size=12).hexdigest()


def of_event(machine: Machine, event: Event) -> dict[str, Any]:
    """What to record of an event before its machine handles it."""
    match event:
        case MessageReceived(sender=sender, message=TentativeData() as data):
            return {"sender": sender, "arrived": _arrived(machine, sender, data)}
        case TentativeDone(output=output, epoch=epoch, bucket=bucket, batch=batch):
            said = digest(batch)
            return {"computed": {"output": output, "epoch": epoch, "bucket": bucket, "said": said}}
        case StableDone(output=output, end=end) if isinstance(machine, ReplicaMachine):
            return _appended(output, machine.outputs[output], end)
        case BucketClosed(stream=stream, upto=upto) if isinstance(machine, SourceMachine):
            return _appended(stream, machine, upto)
        case SnapshotInstalled(stream=stream) if isinstance(machine, ReplicaMachine):
            return _installed(machine, stream)
        case Started():
            return {"began": True}
    return {}


def _appended(stream: str, log: Output | SourceMachine, end: int) -> dict[str, Any]:
    """What to record of a log that has grown to this bucket."""
    before = {"trimmed_upto": log.trimmed_upto, "before": log.end}
    return {"appended": {"stream": stream, "end": end} | before}


def _arrived(machine: Machine, sender: str, data: TentativeData) -> dict[str, Any]:
    key = reader_key(data.stream, data.reader)
    one: Input | None = None
    if isinstance(machine, ClientMachine):
        one = machine.input
    elif isinstance(machine, ReplicaMachine):
        one = machine.inputs.get(key)
    return {
        "stream": data.stream,
        "reader": data.reader,
        "epoch": data.epoch,
        "bucket": data.bucket.number,
        "said": digest(data.bucket.batch),
        "missing": _missing(data.bucket.missing),
        "reads": one is not None and sender in (one.choice.curr, one.standby),
        "have": -1 if one is None else one.have,
    }


def _missing(missing: Missing) -> list[tuple[str, tuple[Run, ...]]]:
    return [(one.source, one.runs) for one in missing]


def of_effect(machine: Machine, effect: Effect) -> dict[str, Any]:
    """What to record of an effect: what a replica does, and what any machine finds to differ."""
    if isinstance(effect, AnnounceDifference):
        return {"differs": to_builtins(effect)}
    if not isinstance(machine, ReplicaMachine):
        return {}
    match effect:
        case AnnounceLoss(output=output, gone=gone, waits_for=waits_for):
            return {"lost": {"output": output, "gone": gone, "waits_for": waits_for}}
        case ForkLane(output=output, epoch=epoch):
            upto = machine.outputs[output].upto
            return {"forked": {"output": output, "epoch": epoch, "upto": upto}}
        case RunTentative(output=output, epoch=epoch, bucket=bucket, inputs=inputs):
            there = zip(machine.outputs[output].inputs, inputs, strict=True)
            those = [_input(one, spans, bucket) for one, spans in there]
            released = {"output": output, "epoch": epoch, "bucket": bucket, "inputs": those}
            return {"released": released | {"missing": _missing(effect.missing)}}
        case SkipAhead(output=output, after=after, trimmed_upto=upto):
            return {"skipped": {"output": output, "after": after, "right_from": upto}}
    return {}


def _installed(machine: ReplicaMachine, stream: str) -> dict[str, Any]:
    inputs = [(one.stream, one.reader) for one in machine.outputs[stream].inputs]
    return {"installed": {"output": stream, "inputs": inputs}}


def _input(one: Input, spans: Sequence[Span], number: int) -> dict[str, Any]:
    said = one.overlay.get(number)
    return {
        "there": bool(spans),
        "from": one.said.get(number),
        "stream": one.stream,
        "reader": one.reader,
        "have": one.have,
        "said": None if said is None else digest(said.batch),
        "given": _given(spans, number),
        "window": one.options.input_window,
    }


def _given(spans: Sequence[Span], number: int) -> str:
    """What a lane is given of an input: a digest, `IN_LOG`, or empty."""
    for span in spans:
        if span.after < number <= span.upto:
            batches = [bucket.batch for bucket in span.buckets if bucket.number == number]
            return IN_LOG if span.log else digest(batches[0] if batches else None)
    return ""
