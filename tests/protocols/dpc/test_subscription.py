"""Both halves of a subscription over a bad network: the consumer gets the log, whole and in order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from protocols.dpc.hand import UP_FAILURE, bucket, of, options, piece, sent, status

from australis.protocols.dpc.effects import SendLog
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import (
    HeartbeatReply,
    StableData,
    SubscriptionState,
    TentativeData,
)
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.subscribers import Overlay, Subscribers


class Wire:
    """A producer `x1` of stream x, a consumer `c`, and the messages between them."""

    def __init__(self) -> None:
        self.monitor = Monitor("x1", ["x"], misses=3)
        self.input = Input("x", {"x1": self.monitor}, "x1", options(send_window=4))
        self.them = Subscribers("x", ["c"], send_window=4)
        self.end = -1
        self.overlay = Overlay(1, {})
        self.under_way: list[Any] = []
        self.taken: list[int] = []

    # --- the producer ------------------------------------------------------------------------

    def log(self) -> None:
        """The log grows by a bucket; what lay tentatively there is gone."""
        self.end += 1
        self.overlay.buckets.pop(self.end, None)
        self.push()

    def guess(self) -> None:
        """The overlay grows by a bucket."""
        number = max([self.end, *self.overlay.buckets]) + 1
        self.overlay.buckets[number] = bucket(number)
        self.push()

    def push(self) -> None:
        effects = self.them.due(-1, self.end, settled=not self.overlay.buckets)
        effects += self.them.overlay_due(self.overlay)
        for e in of(SendLog, effects):
            assert e.after <= e.upto <= self.end
            self.under_way.append(piece("x", e.after, e.upto, undo=e.undo, rec_done=e.rec_done))
        self.under_way += [message for _, message in sent(TentativeData, effects)]

    # --- the consumer ------------------------------------------------------------------------

    def heartbeat(self) -> None:
        number = self.monitor.next_number(0)
        self.under_way.append((number, self.input.want("x1", -1, 0)))

    def deliver(self, index: int, keep: bool = False) -> None:
        if not self.under_way:
            return
        index %= len(self.under_way)
        message = self.under_way[index] if keep else self.under_way.pop(index)
        match message:
            case (int(number), SubscriptionState() as want):
                self.them.heard("c", want, 1, number)
                reply = HeartbeatReply(1, number, (status("x", UP_FAILURE, self.end),), 0)
                self.under_way.append(reply)
                self.push()
            case HeartbeatReply():
                self.monitor.replied(message, 0)
                self.input.choose(0)
            case StableData():
                before = self.input.have
                if self.input.take_stable("x1", message, 0):
                    self.taken += range(before + 1, self.input.have + 1)
                    assert set(range(before + 1, self.input.have + 1)) <= set(self.input.stable)
                    self.input.forget(self.input.have)
            case TentativeData():
                self.input.take_tentative("x1", message)

    def settle(self) -> None:
        """The network is kind for a while."""
        for _ in range(3 * (self.end + 5)):
            self.heartbeat()
            while self.under_way:
                self.deliver(0)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "log",
                "log",
                "guess",
                "heartbeat",
                "heartbeat",
                "deliver",
                "deliver",
                "repeat",
                "lose",
            ]
        ),
        st.integers(0, 20),
    ),
    max_size=80,
)


def play(steps: list[tuple[str, int]]) -> Wire:
    wire = Wire()
    for kind, pick in steps:
        match kind:
            case "log":
                wire.log()
            case "guess":
                wire.guess()
            case "heartbeat":
                wire.heartbeat()
            case "deliver":
                wire.deliver(pick)
            case "repeat":
                wire.deliver(pick, keep=True)
            case "lose" if wire.under_way:
                wire.under_way.pop(pick % len(wire.under_way))
        assert all(number > wire.input.have for number in wire.input.overlay)
    return wire


@given(STEPS)
def test_every_bucket_arrives_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    wire = play(steps)
    wire.settle()
    assert wire.taken == list(range(wire.end + 1))


@given(STEPS)
def test_the_most_recent_tentative_bucket_arrives_too(steps: list[tuple[str, int]]) -> None:
    """Gaps among tentative tuples are legal where messages are lost (4.11.2)."""
    wire = play(steps)
    wire.settle()
    newest = max([wire.end, *wire.overlay.buckets])
    assert wire.input.tentative == newest
