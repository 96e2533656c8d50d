"""What a listener and a queue let in."""

from __future__ import annotations

import pytest

from australis.node.admission import (
    BURST,
    FAIR_EVERY,
    RANK_BUDGETS,
    SENDER_BUDGETS,
    Admissions,
    Limits,
    MessageQueue,
    Rank,
    Refusal,
    connection_limit,
)

LIMITS = Limits(connections=6, unknown=3, per_identity=2)


def test_files_always_have_descriptors() -> None:
    for descriptors in (64, 256, 1024, 20_000, 1 << 20):
        for listeners in (1, 2, 10):
            most = connection_limit(descriptors, listeners)
            assert most >= 8
            if descriptors >= 1024:
                assert most * listeners <= descriptors // 2


def test_the_oldest_unknown_connection_makes_way() -> None:
    admissions = Admissions(LIMITS)
    first, second, third = (admissions.arrive("x")[0] for _ in range(3))
    admissions.identify(second, None)
    assert admissions.arrive("x")[1] is None
    assert admissions.arrive("x")[1] == first
    with pytest.raises(Refusal, match="has to make way for newer ones"):
        admissions.identify(first, None)
    admissions.identify(third, None)
    assert len(admissions) == 4


def test_a_flood_from_one_address_does_not_keep_out_others() -> None:
    admissions = Admissions(LIMITS)
    flood = [admissions.arrive("flood")[0] for _ in range(2)]
    other, _ = admissions.arrive("other")
    for _ in range(100):
        number, gone = admissions.arrive("flood")
        assert gone == flood.pop(0)
        flood.append(number)
    admissions.identify(other, "reader")


def test_who_says_nothing_makes_way_for_who_does() -> None:
    admissions = Admissions(LIMITS)
    slow, _ = admissions.arrive("x")
    admissions.speak(slow)
    for _ in range(100):
        _, gone = admissions.arrive("x")
        assert gone != slow
    for number in range(103, 106):
        assert admissions.arrive("x")[0] == number - 1
        admissions.speak(number - 1)
    with pytest.raises(Refusal, match="has to make way"):
        admissions.identify(slow, None)


def test_known_connections_never_make_way() -> None:
    admissions = Admissions(LIMITS)
    for number in range(6):
        admissions.identify(admissions.arrive("x")[0], f"i{number}")
    with pytest.raises(Refusal, match="there are 6 connections already"):
        admissions.arrive("x")
    admissions.leave(1)
    admissions.arrive("x")


def test_an_identity_has_only_so_many_connections() -> None:
    admissions = Admissions(LIMITS)
    for _ in range(2):
        admissions.identify(admissions.arrive("x")[0], "reader")
    with pytest.raises(Refusal, match="'reader' has 2 connections already"):
        admissions.identify(admissions.arrive("x")[0], "reader")
    admissions.identify(admissions.arrive("x")[0], "another")


def test_peers_are_served_before_clients_before_guests() -> None:
    queue: MessageQueue[str] = MessageQueue()
    for rank in (Rank.GUEST, Rank.CLIENT, Rank.PEER, Rank.GUEST, Rank.PEER):
        queue.put_message(rank.name, rank, rank.name, 1, 0.0)
    queue.put("its own")
    taken = [queue.take() for _ in range(7)]
    assert taken == ["PEER", "PEER", "its own", "CLIENT", "GUEST", "GUEST", None]


@pytest.mark.parametrize("rank", Rank)
def test_a_sender_and_a_rank_have_budgets(rank: Rank) -> None:
    queue: MessageQueue[int] = MessageQueue()
    each, total = SENDER_BUDGETS[rank].messages, RANK_BUDGETS[rank].messages
    taken = sum(queue.put_message(n, rank, "one", 1, 0.0) for n in range(2 * each))
    assert taken == each
    senders = 2 * total // each
    taken += sum(
        queue.put_message(n, rank, f"s{s}", 1, 0.0) for s in range(senders) for n in range(each)
    )
    assert taken == total
    assert queue.dropped[rank] == each + senders * each - (total - each)
    for other in set(Rank) - {rank}:
        assert queue.put_message(0, other, "other", 1, 0.0)


def test_a_sender_has_a_budget_of_bytes() -> None:
    queue: MessageQueue[int] = MessageQueue()
    most = SENDER_BUDGETS[Rank.GUEST].bytes
    assert queue.put_message(0, Rank.GUEST, "g", 2 * most, 0.0), "a single one always fits"
    assert not queue.put_message(0, Rank.GUEST, "g", 1, 0.0)
    queue.take()
    assert queue.put_message(0, Rank.GUEST, "g", 1, 0.0)


def test_clients_and_guests_have_a_rate() -> None:
    queue: MessageQueue[int] = MessageQueue(per_s=10)

    def sent(rank: Rank, now_s: float) -> int:
        taken = 0
        while queue.put_message(0, rank, "g", 1, now_s):
            queue.take()
            taken += 1
            if taken == 1000:
                break
        return taken

    assert sent(Rank.GUEST, 0.0) == BURST
    assert sent(Rank.GUEST, 1.0) == 10
    assert sent(Rank.GUEST, 1000.0) == BURST
    assert sent(Rank.PEER, 0.0) == 1000


def test_guests_that_come_and_go_in_new_names_leave_nothing() -> None:
    queue: MessageQueue[int] = MessageQueue()
    for n in range(10_000):
        queue.put_message(n, Rank.GUEST, f"guest {n}", 1, 0.0)
        queue.take()
    assert len(queue._senders) <= 1024


def test_a_flood_of_a_higher_rank_keeps_out_no_lower_one() -> None:
    queue: MessageQueue[str] = MessageQueue()
    assert queue.put_message("client", Rank.CLIENT, "c", 1, 0.0)
    for number in range(10 * FAIR_EVERY):
        queue.put_message(f"peer {number}", Rank.PEER, "a", 1, 0.0)
    taken = [queue.take() for _ in range(FAIR_EVERY)]
    assert taken.count("client") == 1
    assert [one for one in taken if one != "client"][:2] == ["peer 0", "peer 1"]


def test_asking_for_room_uses_up_no_rate() -> None:
    queue: MessageQueue[str] = MessageQueue(per_s=1.0)
    for _ in range(2 * BURST):
        assert queue.has_room(Rank.GUEST, "g", 1, 0.0)
    assert queue.dropped[Rank.GUEST] == 0
