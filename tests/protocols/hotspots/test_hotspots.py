"""Load levels, criteria, and a balancer that lets components go but not to and fro."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

import msgspec
import pytest

from australis.kernel.durations import MINUTE
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, MessageReceived, Send, TimerFired
from australis.protocols.hotspots.balancer import BALANCE, BalancerMachine
from australis.protocols.hotspots.criteria import HotSpot, Thresholds, find
from australis.protocols.hotspots.events import (
    Arrived,
    Composed,
    Hosted,
    HotSpotOptions,
    Measured,
    Move,
    MoveEnded,
    NotComposed,
    OfferOneMore,
    Wanted,
)
from australis.protocols.hotspots.levels import Levels, even_levels
from australis.protocols.hotspots.loads import Averages, LoadMeter, Used
from australis.protocols.hotspots.messages import MigrationDecision, Offer
from australis.protocols.hotspots.ontology import Ontology
from australis.protocols.ring.events import Started
from australis.protocols.ring.messages import Entry, Put
from australis.protocols.ring.peer import RingMachine

LOW = Averages(0.5, 0.5, 0.5)
HIGH = Averages(4.0, 4.0, 4.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Levels([(1.0, inf)]), "none begins at 0"),
        (lambda: Levels([(0.0, 5.0)]), "highest should have no end"),
        (lambda: Levels([(0.0, 3.0), (4.0, inf)]), "nothing between 3 and 4"),
        (lambda: Levels([(0.0, 3.0), (5.0, 4.0), (3.0, inf)]), "end before they begin"),
        (lambda: even_levels(1, 0.2), "at least 2"),
        (lambda: even_levels(5, 3.0), "only 2.5 wide"),
        (lambda: Thresholds(overload=0.1, imbalance=0.2), "less than the imbalance"),
        (lambda: Thresholds(minutes=2), "one of 1, 5, 15"),
        (lambda: HotSpotOptions(levels=((0.0, 1.0),)), "no end"),
        (lambda: Ontology(["Filter"]).check("Fliter"), "is no operator of the ontology"),
        (lambda: Ontology(["Encryption..AES"]), "words with dots"),
    ],
)
def test_mistakes_are_told(wrong: Callable[[], object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        wrong()


def test_an_average_over_fifteen_minutes_is_slow_to_believe() -> None:
    meter = LoadMeter()
    meter.sample(0.0, 0)
    for minute in range(1, 4):
        averages = meter.sample(4.0, minute * MINUTE)
    assert averages.one > 3.5 > 2.0 > averages.five > averages.fifteen


def test_a_short_overload_is_no_hot_spot() -> None:
    loads = {"a": Averages(4.0, 1.0, 0.5), "b": LOW}
    assert find(loads, Thresholds(minutes=5)) is None
    assert find(loads, Thresholds(minutes=1)) == HotSpot("a", "b")


def balancer(name: str = "a") -> BalancerMachine:
    machine = BalancerMachine(RingMachine(name, Random(1)))
    machine.handle(Started(1), 0)
    machine.handle(Hosted({"Filter": ("filter1", "filter2")}), 0)
    return machine


def moves(effects: list[Effect]) -> list[Move]:
    return [effect for effect in effects if isinstance(effect, Move)]


def decide(machine: BalancerMachine, target: str, averages: Averages, now: int) -> list[Move]:
    decision = MigrationDecision("Filter", target, averages)
    return moves(machine.handle(MessageReceived("r", decision), now))


def test_a_second_decision_is_ignored_while_one_is_carried_out() -> None:
    machine = balancer()
    assert decide(machine, "b", LOW, 1) == [Move("filter1", "b")]
    assert decide(machine, "c", LOW, 2) == []
    machine.handle(MoveEnded("filter1", True), 3)
    machine.handle(Hosted({"Filter": ("filter2",)}), 3)
    assert decide(machine, "c", LOW, 4) == [], "its load has not settled"
    assert decide(machine, "c", LOW, 4 + MINUTE) == [Move("filter2", "c")]


def test_a_component_goes_back_only_if_both_loads_are_lower_there() -> None:
    machine = balancer()
    machine.handle(Arrived("filter1", "b"), 0)
    machine.handle(Arrived("filter2", "b"), 0)
    machine.handle(Measured(Used(queue=4.0)), 1)
    assert decide(machine, "b", Averages(5.0, 1.0, 1.0), 2) == []
    assert decide(machine, "b", LOW, 3) == [Move("filter1", "b")]


def test_a_load_is_told_when_it_leaves_its_level() -> None:
    machine = balancer()
    for minute, load in enumerate((1.0, 1.2, 2.0, 9.0, 9.0, 9.0, 9.0)):
        machine.handle(Measured(Used(queue=load)), minute * MINUTE)
    assert machine.updates == 3  # at first, and twice on the way up
    known = machine.ring.store.under("Filter", 6 * MINUTE)
    assert [entry.owner for entry in known] == ["a"]


def watching(loads: dict[str, Averages], running: int = 1) -> BalancerMachine:
    """A peer alone on its ring, responsible for everything, that others have told their loads."""
    machine = BalancerMachine(RingMachine("watcher", Random(1)))
    machine.handle(Started(1), 0)
    for peer, averages in loads.items():
        value = msgspec.msgpack.encode(Offer(averages, running))
        entry = Entry("Filter", peer, value, 1, 10 * MINUTE)
        machine.handle(MessageReceived(peer, Put(1, (entry,))), 0)
    return machine


def test_whoever_is_responsible_tells_the_hot_spot_to_let_go() -> None:
    effects = watching({"a": HIGH, "b": LOW, "c": HIGH}).handle(TimerFired(BALANCE), MINUTE)
    sent = [e for e in effects if isinstance(e, Send)]
    assert sent == [Send("c", MigrationDecision("Filter", "b", LOW))]


def test_if_all_are_hot_placement_is_asked_for_one_more() -> None:
    effects = watching({"a": HIGH, "b": HIGH}).handle(TimerFired(BALANCE), MINUTE)
    assert OfferOneMore("Filter") in effects


def test_a_peer_that_runs_nothing_of_it_is_left_alone() -> None:
    effects = watching({"a": HIGH, "b": LOW}, running=0).handle(TimerFired(BALANCE), MINUTE)
    assert not [e for e in effects if isinstance(e, Send)]


# --- composing applications ------------------------------------------------------------------------


def test_an_application_goes_to_the_least_loaded() -> None:
    machine = watching({"a": HIGH, "b": LOW, "c": HIGH})
    assert machine.handle(Wanted("app", ("Filter",)), 1) == [Composed("app", ("b",))]


def test_components_that_it_places_itself_count() -> None:
    """b is one and a half below c: it takes two of three, then c is as good."""
    machine = watching({"b": LOW, "c": Averages(2.0, 2.0, 2.0)})
    (composed,) = machine.handle(Wanted("app", ("Filter",) * 3), 1)
    assert isinstance(composed, Composed)
    assert sorted(composed.peers) == ["b", "b", "c"]


def test_equally_loaded_ones_share() -> None:
    """Whoever is about as little loaded as the least is as good: not all go to one."""
    machine = watching({"a": Averages(0.6, 0.6, 0.6), "b": LOW, "c": HIGH})
    chosen = set()
    for n in range(20):
        (composed,) = machine.handle(Wanted(f"app{n}", ("Filter",)), 1)
        assert isinstance(composed, Composed)
        chosen |= set(composed.peers)
    assert chosen == {"a", "b"}


def test_what_nobody_offers_cannot_be_composed() -> None:
    machine = watching({"a": LOW})
    effects = machine.handle(Wanted("app", ("Filter", "Join")), 1)
    assert effects == [NotComposed("app", "Join", unreachable=False)]
