"""A source whose log is not the one that its consumers have read: it is told, and not read."""

from __future__ import annotations

from random import Random
from typing import Any

from protocols.dpc.hand import want

from australis.kernel.machine import Effect, MessageReceived, Send
from australis.protocols.dpc.effects import (
    AnnounceWentBack,
    BucketClosed,
    RememberSources,
    RestoredLog,
    RunStable,
    SendLog,
    Started,
)
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    LogDigest,
    StableData,
    StreamStatus,
    WentBack,
)
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.outputs import OutputConfig, ReplicaConfig
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import State

DIGESTS = ((2, 20), (5, 50), (8, 80))


def source(end: int = 9, **restored: Any) -> SourceMachine:
    machine = SourceMachine("s", ("r", "q"), DpcOptions())
    lane = RestoredLog("s", end, -1, end, digest=LogDigest(-1, end, 80), digests=DIGESTS)
    machine.handle(Started(2, (type(lane)(**{**_fields(lane), **restored}),)), 0)
    return machine


def _fields(lane: RestoredLog) -> dict[str, Any]:
    return {name: getattr(lane, name) for name in lane.__struct_fields__}


def asked(machine: SourceMachine, sender: str = "r", **values: Any) -> list[Effect]:
    wants = (want("s", log=True, **values),)
    return list(machine.handle(MessageReceived(sender, Heartbeat(1, 1, wants)), 0))


def status(effects: list[Effect]) -> Any:
    (reply,) = [e.message for e in effects if isinstance(e, Send)]
    assert isinstance(reply, HeartbeatReply)
    return reply.streams[0]


def test_a_log_that_ends_before_what_a_consumer_has_is_told_and_not_served() -> None:
    machine = source()
    effects = asked(machine, have=12)
    found = WentBack("r", 12, 9, differs=False)
    assert effects[0] == AnnounceWentBack("s", "", found)
    assert (status(effects).went_back, status(effects).state) == (found, State.FAILURE)
    machine.handle(BucketClosed("s", 15), 0)
    effects = asked(machine, "q", have=3, room=99)
    assert not [e for e in effects if isinstance(e, SendLog | AnnounceWentBack)]
    assert status(effects).went_back == found, "also to a consumer that would not have noticed"
    assert "put the log back as it was" in found.told("s")


def test_a_log_that_differs_from_what_a_consumer_has_read_is_told() -> None:
    """It has gone on since, so that its end says nothing."""
    effects = asked(source(), have=7, digest=LogDigest(-1, 6, 51))
    assert effects[0] == AnnounceWentBack("s", "", WentBack("r", 6, 9, differs=True))
    effects = asked(source(), have=7, digest=LogDigest(3, 6, 50))
    assert isinstance(effects[0], AnnounceWentBack), "another log begins elsewhere"


def test_a_log_that_is_the_same_is_served() -> None:
    effects = asked(source(), have=7, room=99, digest=LogDigest(-1, 6, 50))
    assert status(effects).went_back is None
    assert [type(e) for e in effects] == [Send, SendLog]
    assert status(asked(source(), have=1, digest=LogDigest(-1, 1, 99))).went_back is None, (
        "digests of that long ago are not known any more"
    )


def test_empty_buckets_after_the_end_of_a_stream_need_not_be_in_the_log() -> None:
    assert status(asked(source(complete=True), have=12)).went_back is None


def test_only_consumers_of_the_configuration_count() -> None:
    assert status(asked(source(), "guest 1", have=12)).went_back is None


def test_a_replica_keeps_what_it_has_read_before_its_log_rests_on_it() -> None:
    """And says so after a restart, though it goes on at an earlier checkpoint."""
    outputs = (OutputConfig("x", ("s",), ("c",)),)
    config = ReplicaConfig("r", {"s": ("s",)}, outputs)
    machine = ReplicaMachine(config, DpcOptions(), Random(1))
    machine.handle(Started(1, fresh=True), 0)
    status = StreamStatus("s", State.STABLE, -1, 9, overlay=True)
    machine.handle(MessageReceived("s", HeartbeatReply(2, 1, (status,), 0)), 0)
    buckets = tuple(Bucket(n, 0, None, 10 * n) for n in range(10))
    data = StableData("s", -1, 9, buckets, digest=LogDigest(-1, -1, 0), incarnation=2)
    effects = list(machine.handle(MessageReceived("s", data), 1))
    read = (("s", LogDigest(-1, 9, 90)),)
    first, second = [e for e in effects if isinstance(e, RememberSources | RunStable)]
    assert first == RememberSources("x", read)
    assert isinstance(second, RunStable)
    again = ReplicaMachine(config, DpcOptions(), Random(1))
    lane = RestoredLog("x", 4, -1, 9, read=read)
    (sent,) = [e for e in again.handle(Started(2, (lane,)), 0) if isinstance(e, Send)]
    assert isinstance(sent.message, Heartbeat)
    (subscription,) = sent.message.wants
    assert (subscription.have, subscription.digest) == (4, read[0][1])


def test_a_source_serves_nothing_for_another_stream() -> None:
    """Who may read some other stream could name that, and ask the source."""
    machine = source()
    wants = (want("public", log=True),)
    effects = machine.handle(MessageReceived("guest x", Heartbeat(1, 1, wants)), 0)
    assert not [one for one in effects if isinstance(one, SendLog)]
    assert "guest x" not in str(machine.subscribers.all)
