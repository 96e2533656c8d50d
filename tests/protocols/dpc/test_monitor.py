"""Monitoring a replica (figure 4-10): what counts as failed, and which answers are news."""

from __future__ import annotations

import pytest
from protocols.dpc.hand import FAILURE, STABILIZATION, STABLE, UP_FAILURE, status

from australis.protocols.dpc.messages import HeartbeatReply, StreamStatus
from australis.protocols.dpc.monitor import Monitor


@pytest.fixture
def monitor() -> Monitor:
    return Monitor("x1", ["x"], misses=3)


def reply(number: int, *statuses: StreamStatus, incarnation: int = 1) -> HeartbeatReply:
    return HeartbeatReply(incarnation, number, statuses or (status("x"),), 0)


def ask(monitor: Monitor, times: int = 1) -> int:
    numbers = [monitor.next_number(0) for _ in range(times)]
    return numbers[-1]


def test_a_replica_never_heard_of_has_failed(monitor: Monitor) -> None:
    assert monitor.state("x") is FAILURE
    assert not monitor.heard
    assert monitor.status("x") is None


def test_an_answer_brings_the_state_of_every_stream() -> None:
    monitor = Monitor("n", ["x", "y"], misses=3)
    monitor.replied(reply(ask(monitor), status("x", UP_FAILURE), status("y", STABILIZATION)), 0)
    assert (monitor.state("x"), monitor.state("y")) == (UP_FAILURE, STABILIZATION)
    assert monitor.heard


def test_more_than_p1_unanswered_heartbeats_mean_failure(monitor: Monitor) -> None:
    monitor.replied(reply(ask(monitor)), 0)
    ask(monitor, 3)
    assert monitor.state("x") is STABLE, "P1 are not more than P1"
    ask(monitor)
    assert monitor.failed
    assert monitor.state("x") is FAILURE


def test_questions_between_the_heartbeats_do_not_count(monitor: Monitor) -> None:
    monitor.replied(reply(ask(monitor)), 0)
    for _ in range(20):
        number = monitor.next_number(0, regular=False)
    assert monitor.state("x") is STABLE, "they were all asked in one instant"
    assert monitor.replied(reply(number, status("x", UP_FAILURE)), 0), "their answers do"


def test_one_answer_forgives_all_misses(monitor: Monitor) -> None:
    last = ask(monitor, 10)
    assert monitor.replied(reply(last), 0), "that it is back is news"
    assert monitor.pending == 0
    assert monitor.state("x") is STABLE


def test_a_late_answer_to_an_older_heartbeat_shows_that_it_lives(monitor: Monitor) -> None:
    first = ask(monitor)
    ask(monitor, 3)
    monitor.replied(reply(first), 0)
    assert not monitor.failed


def test_an_answer_overtaken_by_a_later_one_does_not_count(monitor: Monitor) -> None:
    first, second = ask(monitor), ask(monitor)
    monitor.replied(reply(second, status("x", UP_FAILURE)), 0)
    assert not monitor.replied(reply(first, status("x", STABLE)), 0)
    assert monitor.state("x") is UP_FAILURE


def test_an_answer_repeated_by_the_network_does_not_count(monitor: Monitor) -> None:
    first = ask(monitor)
    monitor.replied(reply(first), 0)
    ask(monitor, 4)
    assert not monitor.replied(reply(first), 0)
    assert monitor.failed


def test_the_first_answer_of_a_new_life_counts_whatever_its_number(monitor: Monitor) -> None:
    monitor.replied(reply(ask(monitor, 5), status("x", STABLE)), 0)
    assert monitor.replied(reply(2, status("x", FAILURE), incarnation=2), 0)
    assert monitor.state("x") is FAILURE


def test_answers_of_an_earlier_life_do_not_count(monitor: Monitor) -> None:
    monitor.replied(reply(ask(monitor), status("x", FAILURE), incarnation=2), 0)
    assert not monitor.replied(reply(ask(monitor), status("x", STABLE), incarnation=1), 0)
    assert monitor.state("x") is FAILURE


def test_that_a_log_has_grown_is_no_news_but_is_known(monitor: Monitor) -> None:
    assert monitor.replied(reply(ask(monitor), status("x", STABLE, 3)), 0)
    assert not monitor.replied(reply(ask(monitor), status("x", STABLE, 4)), 0)
    known = monitor.status("x")
    assert known is not None
    assert known.end == 4


def test_a_changed_state_is_news(monitor: Monitor) -> None:
    monitor.replied(reply(ask(monitor), status("x", STABLE)), 0)
    assert monitor.replied(reply(ask(monitor), status("x", UP_FAILURE)), 0)
    assert monitor.replied(reply(ask(monitor), status("x", UP_FAILURE, overlay=False)), 0)
