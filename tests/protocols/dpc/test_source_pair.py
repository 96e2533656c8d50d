"""A source's two proxies and their witness: who may publish, acknowledge and take over."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from australis.kernel.machine import Effect, Message, MessageReceived, Send, TimerFired
from australis.protocols.dpc.effects import (
    AnnounceLease,
    BucketClosed,
    LimitSource,
    RestoredLog,
    Started,
    Truncate,
)
from australis.protocols.dpc.messages import (
    Bucket,
    ConsumerHeard,
    Heartbeat,
    LogDigest,
    SubscriptionState,
)
from australis.protocols.dpc.options import DpcOptions, Lease, LogBounds
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    CopyStored,
    FollowSource,
    LeadSource,
    RowsJournalled,
    SaveStanding,
    SendCopy,
    SourceClaim,
    SourceCopy,
    SourceHeld,
    SourceMember,
    SourceView,
    SourceWitness,
    Standing,
    StoreCopy,
)
from australis.protocols.dpc.states import State

LEADS = SourceView(2, "s@a", False, 1, 5)
"""The member on node a leads, and the one on node b confirms."""
OPTIONS = DpcOptions()
SILENCE_US = 10 * OPTIONS.heartbeat_us


def member(
    node: str,
    standing: Standing,
    end: int = -1,
    rows: int = 0,
    options: DpcOptions = OPTIONS,
    consumers: tuple[str, ...] = (),
) -> SourceMember:
    """A member that has started with this on its disk."""
    other = {"a": "b", "b": "a"}[node]
    first = node == "a"
    made = SourceMember(
        *(f"s@{node}", "s", f"s@{other}", "w", consumers, options),
        first=first,
        standing=standing,
        rows=rows,
    )
    made.handle(Started(5, (RestoredLog("s", end, -1, end),)), 0)
    return made


def leader(end: int = -1, rows: int = 0) -> SourceMember:
    made = member("a", Standing(LEADS, 1, claimed=5), end, rows)
    hear(made, "s@b", SourceHeld(LEADS, 7, 1, end, rows))
    return made


def standby(end: int = -1, rows: int = 0) -> SourceMember:
    return member("b", Standing(LEADS, 1, synced=True), end, rows)


def hear(machine: SourceMember, sender: str, message: Message, now: int = 0) -> Sequence[Effect]:
    return machine.handle(MessageReceived(sender, message), now)


def sent(effects: Sequence[Effect], to: str, kind: type[Message]) -> list[Message]:
    return [
        e.message for e in effects if isinstance(e, Send) and e.to == to and type(e.message) is kind
    ]


def test_a_new_source_begins_with_the_view_that_its_witness_grants() -> None:
    first = member("a", Standing())
    effects = first.handle(TimerFired("heartbeat"), 1)
    (claim,) = sent(effects, "w", SourceClaim)
    assert isinstance(claim, SourceClaim)
    assert claim.view == SourceView(1, "s@a", True, 1, 5)
    effects = hear(first, "w", claim.view)
    assert LeadSource("s") in effects
    assert isinstance(effects[0], SaveStanding), "durable before it takes a row"
    second = member("b", Standing())
    assert not sent(second.handle(TimerFired("heartbeat"), 1), "w", SourceClaim)


def test_a_bucket_is_published_and_a_row_acknowledged_when_both_have_it() -> None:
    one = leader(3, 10)
    effects = one.handle(RowsJournalled("s", 12), 1)
    assert [e.copy.rows_upto for e in effects if isinstance(e, SendCopy)] == [12]
    assert not any(isinstance(e, AcknowledgeRows) for e in effects)
    one.handle(BucketClosed("s", 4), 1)
    assert one.end == 3
    effects = hear(one, "s@b", SourceHeld(LEADS, 7, 1, 3, 12))
    assert (AcknowledgeRows("s", 12) in effects, one.end) == (True, 3)
    hear(one, "s@b", SourceHeld(LEADS, 7, 1, 4, 12))
    assert one.end == 4


def test_what_was_confirmed_by_a_disk_that_is_lost_does_not_count() -> None:
    one = leader(3)
    hear(one, "s@b", SourceHeld(SourceView(), 8, 0, -1, 0))
    one.handle(BucketClosed("s", 4), 1)
    hear(one, "s@b", SourceHeld(LEADS, 7, 1, 4, 0))
    assert one.end == 3, "a message of the incarnation before"


def test_a_follower_confirms_what_is_durable_and_no_older_view() -> None:
    two = standby(3)
    copy = SourceCopy(LEADS, 5, 3, 0, 3, 4, 0, 0)
    effects = hear(two, "s@a", copy)
    assert StoreCopy("s", copy) in effects
    assert not sent(effects, "s@a", SourceHeld)
    (held,) = sent(two.handle(CopyStored("s", copy), 1), "s@a", SourceHeld)
    assert isinstance(held, SourceHeld)
    assert held.end == 4
    late = replace(copy, view=replace(LEADS, epoch=1), after=4, upto=5)
    effects = hear(two, "s@a", late)
    assert not any(isinstance(e, StoreCopy) for e in effects)
    assert [one.view for one in sent(effects, "s@a", SourceHeld)] == [LEADS]  # type: ignore[attr-defined]


def test_a_standby_takes_over_and_the_leader_before_it_steps_down() -> None:
    one, two, witness = leader(3), standby(3), SourceWitness("s", LEADS)
    one.handle(BucketClosed("s", 4), 1)
    (claim,) = sent(two.handle(TimerFired("heartbeat"), SILENCE_US), "w", SourceClaim)
    granted = witness.handle(MessageReceived("s@b", claim), 0)
    (view,) = sent(granted, "s@b", SourceView)
    effects = hear(two, "w", view, SILENCE_US)
    assert LeadSource("s") in effects
    assert (two.leads, two.end) == (True, 3)
    effects = hear(one, "s@b", SourceCopy(two.view, -1, 3, 0, -1, -1, -1, -1))
    assert FollowSource("s") in effects
    assert (one.leads, one.end, one.state) == (False, 3, State.FAILURE)
    assert one.handle(BucketClosed("s", 5), 1) == [], "of the source that is being stopped"


def test_a_standby_with_a_part_of_a_copy_does_not_take_over() -> None:
    two = standby(3)
    part = SourceCopy(LEADS, 5, 3, 0, 3, 4, 0, 0, partial=True)
    effects = hear(two, "s@a", part)
    saved, stored = effects
    assert isinstance(saved, SaveStanding), "before what it stores could not be continued"
    assert not saved.standing.synced
    assert stored == StoreCopy("s", part)
    two.handle(CopyStored("s", part), 1)
    assert not sent(two.handle(TimerFired("heartbeat"), SILENCE_US), "w", SourceClaim)
    rest = replace(part, after=4, upto=5, partial=False)
    hear(two, "s@a", rest, SILENCE_US)
    two.handle(CopyStored("s", rest), SILENCE_US)
    assert two.standing.synced
    assert sent(two.handle(TimerFired("heartbeat"), 2 * SILENCE_US), "w", SourceClaim)


def test_a_view_that_comes_after_a_part_of_a_copy_is_given_back() -> None:
    one = member("a", Standing(LEADS, 1, claimed=5), 3, 10)
    two, witness = standby(3, 10), SourceWitness("s", LEADS)
    (claim,) = sent(two.handle(TimerFired("heartbeat"), SILENCE_US), "w", SourceClaim)
    part = SourceCopy(LEADS, 5, 3, 10, 3, 4, 10, 10, partial=True)
    hear(two, "s@a", part, SILENCE_US)
    (held,) = sent(two.handle(CopyStored("s", part), SILENCE_US), "s@a", SourceHeld)
    one.handle(BucketClosed("s", 5), SILENCE_US)
    hear(one, "s@b", held, SILENCE_US)
    assert one.end == 4, "what both have is published"
    (granted,) = sent(witness.handle(MessageReceived("s@b", claim), 0), "s@b", SourceView)
    hear(two, "w", granted, SILENCE_US)
    two = member("b", two.standing, 4, 10)  # not even after a restart
    assert not two.leads
    (held,) = sent(two.handle(TimerFired("heartbeat"), SILENCE_US), "s@a", SourceHeld)
    effects = hear(one, "s@b", held, SILENCE_US)
    assert FollowSource("s") in effects
    (claim,) = sent(effects, "w", SourceClaim)
    assert claim == SourceClaim(SourceView(4, "s@a", True, 1, 5)), "with the log that both have"
    assert not sent(two.handle(TimerFired("heartbeat"), 9 * SILENCE_US), "w", SourceClaim)
    (granted,) = sent(witness.handle(MessageReceived("s@a", claim), 0), "s@a", SourceView)
    one = member("a", one.standing, 5, 10)
    assert LeadSource("s") in hear(one, "w", granted, SILENCE_US)
    assert (one.leads, one.end) == (True, 5)


def test_a_view_is_not_given_back_by_a_member_that_lost_its_disk() -> None:
    one, taken = leader(3), SourceView(3, "s@b", True, 3, 5)
    effects = hear(one, "s@b", SourceHeld(taken, 8, 0, -1, 0))
    assert not one.leads
    assert not sent(effects, "w", SourceClaim), "it may have led before"
    assert not sent(one.handle(TimerFired("heartbeat"), 2 * SILENCE_US), "w", SourceClaim)


def test_a_whole_log_that_comes_late_does_not_replace_what_is_synced() -> None:
    two = standby(5, 10)
    whole = SourceCopy(LEADS, 5, 5, 0, -1, 3, 0, 5, whole=True)
    effects = hear(two, "s@a", whole)
    assert not any(isinstance(e, StoreCopy) for e in effects)
    (held,) = sent(effects, "s@a", SourceHeld)
    assert held == SourceHeld(LEADS, 5, 1, 5, 10)


def test_what_was_stored_before_a_part_does_not_make_up_for_it() -> None:
    two = standby(3)
    one = SourceCopy(LEADS, 5, 3, 0, 3, 4, 0, 0)
    part = replace(one, after=4, upto=5, partial=True)
    for copy in (one, part):
        hear(two, "s@a", copy)
    two.handle(CopyStored("s", one), 1)
    assert not two.standing.synced, "the part may be on the disk by now"
    two.handle(CopyStored("s", part), 1)
    assert not two.standing.synced


def test_what_is_being_stored_already_is_not_stored_again() -> None:
    two = standby(3)
    copy = SourceCopy(LEADS, 5, 3, 0, 3, 5, 0, 0)
    hear(two, "s@a", copy)
    for again in (copy, replace(copy, upto=4)):
        effects = hear(two, "s@a", again)
        assert not any(isinstance(e, StoreCopy) for e in effects)
        (held,) = sent(effects, "s@a", SourceHeld)
        assert isinstance(held, SourceHeld)
        assert held.end == 3, "only what is durable is confirmed"
    more = replace(copy, rows_upto=1)
    assert StoreCopy("s", more) in hear(two, "s@a", more)


def test_digests_go_on_at_the_standby_and_end_with_a_log_that_is_replaced() -> None:
    two = member("b", Standing(LEADS, 1), 3)
    whole = SourceCopy(LEADS, 5, 3, 0, 1, 4, 0, 0, whole=True)
    hear(two, "s@a", whole)
    two.handle(CopyStored("s", whole, LogDigest(0, 1, 7), ((3, 9),)), 1)
    more = SourceCopy(LEADS, 5, 4, 0, 4, 5, 0, 0)
    hear(two, "s@a", more)
    two.handle(CopyStored("s", more, digests=((5, 11),)), 1)
    assert [two.digests.point(b) for b in (2, 4, 5)] == [
        LogDigest(0, 2, 7),
        LogDigest(0, 4, 9),
        LogDigest(0, 5, 11),
    ]
    hear(two, "s@a", replace(whole, view=replace(LEADS, epoch=3, alone=True)))
    assert two.digests.point(4) is None


def test_a_standby_forgets_what_its_leader_has_forgotten_and_nothing_else() -> None:
    two = member("b", Standing(LEADS, 1, synced=True), 5, consumers=("r",))
    want = SubscriptionState("s", True, False, False, 4, 4, 4, 64)
    effects = hear(two, "r", Heartbeat(1, 1, (want,)))
    assert not any(isinstance(e, Truncate) for e in effects), "another reader may be heard there"
    sign = SourceCopy(LEADS, -1, 5, 0, -1, -1, -1, -1, trimmed_upto=3)
    assert Truncate("s", 3) in hear(two, "s@a", sign)
    assert two.trimmed_upto == 3
    assert not any(isinstance(e, Truncate) for e in hear(two, "s@a", sign))


def test_a_leader_knows_what_its_standby_has_heard_from_consumers() -> None:
    options = DpcOptions(leases={"r": Lease(8 * SILENCE_US)})
    one = member("a", Standing(LEADS, 1, claimed=5), 5, 0, options, ("r",))
    heard = ConsumerHeard("r", 1, 4, 0)
    now = 9 * SILENCE_US
    hear(one, "s@b", SourceHeld(LEADS, 7, 1, 5, 0, (heard,)), now)
    effects = one.handle(TimerFired("leases"), now + 1)
    assert [e for e in effects if isinstance(e, Truncate)] == [Truncate("s", 4)]
    assert not any(isinstance(e, AnnounceLease) for e in effects)
    effects = one.handle(TimerFired("leases"), 2 * now)
    assert [e.lapsed for e in effects if isinstance(e, AnnounceLease)] == [True]


def test_what_a_consumer_acknowledged_before_it_restarted_does_not_count() -> None:
    one = member("a", Standing(LEADS, 1, claimed=5), 5, consumers=("r",))
    want = SubscriptionState("s", True, False, False, -1, -1, -1, 64)
    hear(one, "r", Heartbeat(2, 1, (want,)))
    for incarnation, acknowledged in ((1, -1), (2, 3)):
        heard = ConsumerHeard("r", incarnation, 3, 0)
        hear(one, "s@b", SourceHeld(LEADS, 7, 1, 5, 0, (heard,)))
        assert one.subscribers.acknowledged == acknowledged


def test_a_source_that_takes_over_knows_the_limit_of_its_log() -> None:
    options = DpcOptions(log=LogBounds(max_buckets=10))
    two = member("b", Standing(LEADS, 1, synced=True), 5, options=options)
    effects = hear(two, "w", SourceView(3, "s@b", True, 3, 5), SILENCE_US)
    assert effects.index(LimitSource("s", 9)) > effects.index(LeadSource("s"))


def test_a_standby_keeps_entry_times_by_its_own_clock() -> None:
    one, two = member("a", Standing(LEADS, 1, claimed=5), 3), standby(3)
    ahead_us, now = 7_000_000, 2_000_000
    (held,) = sent(two.handle(TimerFired("heartbeat"), now), "s@a", SourceHeld)
    hear(one, "s@b", held, now + ahead_us + 100)
    effects = one.handle(BucketClosed("s", 4), now + ahead_us + 5_100)
    (copy,) = [e.copy for e in effects if isinstance(e, SendCopy)]
    bucket = Bucket(4, now + ahead_us + 5_000, None)
    effects = hear(two, "s@a", replace(copy, buckets=(bucket,)), now + 5_200)
    (stored,) = [e.copy for e in effects if isinstance(e, StoreCopy)]
    assert stored.buckets == (Bucket(4, now + 5_000, None),)
    two.handle(CopyStored("s", stored), now + 5_200)

    behind_us = 3_000_000  # the clock of the leader was stepped back while it was down
    more = replace(copy, incarnation=6, restored_upto=5, after=4, upto=6)
    buckets = Bucket(5, now + ahead_us + 6_000, None), Bucket(6, now - behind_us + 8_000, None)
    unknown = replace(more, asked=None, buckets=buckets)
    effects = hear(two, "s@a", unknown, now + 9_000)
    assert not any(isinstance(e, StoreCopy) for e in effects), "by a clock that is not known"
    asked = replace(unknown, asked=(5, now + 8_000), at_us=now - behind_us + 8_500)
    effects = hear(two, "s@a", asked, now + 9_000)
    (stored,) = [e.copy for e in effects if isinstance(e, StoreCopy)]
    assert stored.buckets == (Bucket(5, now + 6_000, None), Bucket(6, now + 8_000, None))


def test_entry_times_of_a_whole_copy_are_of_this_incarnation() -> None:
    two = member("b", Standing(LEADS, 1), 3)
    assert two.restored_upto == 3
    whole = SourceCopy(LEADS, 5, 3, 0, 1, 4, 0, 0, whole=True)
    hear(two, "s@a", whole)
    two.handle(CopyStored("s", whole), 1)
    assert two.restored_upto == -1


def test_the_witness_grants_a_view_once() -> None:
    witness = SourceWitness("s", LEADS)
    alone = replace(LEADS, epoch=3, alone=True)
    assert witness.handle(MessageReceived("s@a", SourceClaim(alone)), 0)[-1] == Send("s@a", alone)
    over = SourceView(3, "s@b", True, 3, 5)
    assert witness.handle(MessageReceived("s@b", SourceClaim(over)), 0) == [Send("s@b", alone)]


def test_who_lost_its_disk_does_not_lead_though_the_view_names_it() -> None:
    blank = member("a", Standing())
    hear(blank, "w", LEADS)
    assert (blank.leads, blank.role) == (False, "copying")


def test_a_follower_that_is_behind_does_not_take_over() -> None:
    behind = member("b", Standing(LEADS, 1, synced=False), 3)
    effects = behind.handle(TimerFired("heartbeat"), SILENCE_US)
    assert not sent(effects, "w", SourceClaim)


def test_a_leader_learns_of_a_view_that_it_was_granted_unheard() -> None:
    one, witness = leader(3), SourceWitness("s", LEADS)
    (claim,) = sent(one.handle(TimerFired("heartbeat"), SILENCE_US), "w", SourceClaim)
    witness.handle(MessageReceived("s@a", claim), 0)  # the answer is lost
    hear(one, "s@b", SourceHeld(LEADS, 7, 1, 3, 0), SILENCE_US)
    (claim,) = sent(one.handle(TimerFired("heartbeat"), SILENCE_US + 1), "w", SourceClaim)
    answer = witness.handle(MessageReceived("s@a", claim), 0)
    assert answer == [Send("s@a", replace(LEADS, epoch=3, alone=True))]
    hear(one, "w", witness.view)
    assert one.view == witness.view


def test_a_leader_goes_on_alone_only_with_the_next_view() -> None:
    one = leader(3)
    one.handle(BucketClosed("s", 4), 1)
    effects = one.handle(TimerFired("heartbeat"), SILENCE_US)
    assert [c.view.alone for c in sent(effects, "w", SourceClaim)] == [True]  # type: ignore[attr-defined]
    assert one.end == 3
    hear(one, "w", replace(LEADS, epoch=3, alone=True), SILENCE_US)
    assert (one.end, one.role) == (4, "leads alone")
