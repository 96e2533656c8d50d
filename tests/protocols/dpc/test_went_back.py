"""A source whose log is not the one that its consumers have read: it is told, and not read."""

from __future__ import annotations

from typing import Any

from protocols.dpc.hand import want

from australis.kernel.machine import Effect, MessageReceived, Send
from australis.protocols.dpc.effects import (
    AnnounceWentBack,
    BucketClosed,
    RestoredLog,
    SendLog,
    Started,
)
from australis.protocols.dpc.messages import Heartbeat, HeartbeatReply, LogDigest, WentBack
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.proxies import SourceMachine
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
