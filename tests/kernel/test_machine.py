"""One short line for every event, effect and message, the same in every run."""

from __future__ import annotations

import pyarrow as pa

from australis.kernel.machine import (
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
    describe,
)


class Note(Message, frozen=True):
    text: str
    numbers: tuple[int, ...] = ()
    body: object = None


class Nothing(Event, frozen=True):
    pass


def test_an_effect_is_named_with_its_fields() -> None:
    assert describe(SetTimer("tick", 5)) == "SetTimer(name=tick, at=5)"
    assert describe(TimerFired("tick")) == "TimerFired(name=tick)"
    assert describe(Nothing()) == "Nothing()"


def test_messages_within_are_described_too() -> None:
    text = "Note(text=hi, numbers=[1, 2], body=None)"
    assert describe(Send("b", Note("hi", (1, 2)))) == f"Send(to=b, message={text})"
    assert describe(MessageReceived("a", Note("hi", (1, 2)))) == (
        f"MessageReceived(sender=a, message={text})"
    )


def test_bulk_is_only_counted() -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})
    assert describe(Note("x", (), batch)).endswith("body=3 rows)")
    assert describe(Note("x", (), b"12345")).endswith("body=5 bytes)")
    assert describe(Note("x", (), [Note("y"), b"1"])).endswith(
        "body=[Note(text=y, numbers=[], body=None), 1 bytes])"
    )


def test_equal_things_are_described_equally() -> None:
    assert describe(Note("a", (1,))) == describe(Note("a", (1,)))
    assert describe(Note("a", (1,))) != describe(Note("a", (2,)))
