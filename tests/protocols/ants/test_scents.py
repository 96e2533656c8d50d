"""Scents: what cells tell each other of servers that may be worth a detour."""

from __future__ import annotations

from protocols.ants.hand import Cell, row, sent, told

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, SetTimer, TimerFired
from australis.placement.use import Use
from australis.protocols.ants.messages import Known, Scent
from australis.protocols.ants.observations import ServerObservation, Way

LINK = Way(0.001, 1e-8, 0.0, 1)


def server(name: str, speed: float = 1.0, load: float = 0.0) -> ServerObservation:
    return ServerObservation(name, speed, 0.9, Use(load, 0.0, 0.0))


def known(cell: Cell, found: ServerObservation, *path: str, latency_s: float = 0.001) -> Known:
    """What a neighbour says of a server, the news being of now."""
    way = Way(latency_s, 1e-8, 0.0, len(path) - 1)
    return Known(found, path, way, way, cell.now)


def middle(**options: int) -> Cell:
    return Cell("b", row(1, 1, 1), **options)


def tells(cell: Cell, after_s: float = 5.0) -> dict[str, list[str]]:
    """Which servers it tells each neighbour of, the best first."""
    effects: list[Effect] = cell.take(TimerFired("scent"), after_s)
    assert told(effects, SetTimer) == [SetTimer("scent", cell.now + 5 * SECOND)]
    return {to: [k.server.name for k in scent.known] for to, scent in sent(effects)}


def test_a_cell_tells_its_neighbours_of_itself() -> None:
    assert tells(middle()) == {"a": ["b"], "c": ["b"]}


def test_and_of_servers_it_has_heard_of_but_not_those_behind_the_neighbour() -> None:
    cell = middle()
    cell.hears("c", Scent((known(cell, server("d", 4.0), "c", "d"),), LINK))
    assert tells(cell) == {"a": ["d", "b"], "c": ["b"]}


def test_the_way_to_the_neighbour_is_added() -> None:
    cell = middle()
    cell.hears("c", Scent((known(cell, server("d"), "c", "d", latency_s=0.01),), LINK))
    (detour,) = cell.machine.scents.detours()
    assert detour.path == ("b", "c", "d")
    assert (detour.there.latency_s, detour.back.latency_s) == (0.011, 0.011)
    assert (detour.there.hops, detour.back.hops) == (2, 2)


def test_a_busy_or_slow_or_far_server_is_less_worth() -> None:
    cell = middle(detours=4)
    said = (
        known(cell, server("slow", 1.0), "c", "slow"),
        known(cell, server("busy", 4.0, 0.85), "c", "busy"),
        known(cell, server("fast", 4.0), "c", "fast"),
        known(cell, server("far", 4.0), "c", "far", latency_s=0.002),
    )
    cell.hears("c", Scent(said, LINK))
    assert [d.server.name for d in cell.machine.scents.detours()] == ["fast", "far", "slow", "busy"]


def test_only_the_best_are_taken_along_and_told() -> None:
    cell = middle(detours=2, known=3)
    said = tuple(known(cell, server(f"s{i}", 1.0 + i), "c", f"s{i}") for i in range(9))
    cell.hears("c", Scent(said, LINK))
    assert [d.server.name for d in cell.machine.scents.detours()] == ["s8", "s7"]
    assert tells(cell)["a"] == ["s8", "s7", "s6"]


def test_a_better_way_is_believed_and_a_worse_one_not() -> None:
    cell = middle()
    for latency_s, kept_s in ((0.01, 0.01), (0.02, 0.01), (0.005, 0.005)):
        path = ("c", f"via{latency_s}", "d")
        cell.hears("c", Scent((known(cell, server("d"), *path, latency_s=latency_s),), LINK))
        (detour,) = cell.machine.scents.detours()
        assert detour.there.latency_s == 0.001 + kept_s


def test_news_of_the_same_way_replace_older_ones_good_or_bad() -> None:
    cell = middle()
    old = known(cell, server("d"), "c", "d")
    cell.now += SECOND
    cell.hears("c", Scent((known(cell, server("d", load=0.5), "c", "d"),), LINK))
    cell.hears("c", Scent((old,), LINK))
    (detour,) = cell.machine.scents.detours()
    assert detour.server.use.load == 0.5


def test_a_worse_way_is_believed_when_the_better_one_is_not_heard_of_any_more() -> None:
    cell = middle()
    cell.hears("c", Scent((known(cell, server("d"), "c", "d"),), LINK))
    cell.now += 30 * SECOND
    cell.hears("a", Scent((known(cell, server("d"), "a", "d", latency_s=0.5),), LINK))
    (detour,) = cell.machine.scents.detours()
    assert detour.path == ("b", "a", "d")


def test_what_is_not_told_again_is_forgotten() -> None:
    cell = middle()
    cell.hears("c", Scent((known(cell, server("d"), "c", "d"),), LINK))
    assert "d" in tells(cell, 34)["a"]
    assert "d" not in tells(cell, 1)["a"]


def test_it_learns_nothing_of_itself_nor_from_strangers() -> None:
    cell = middle()
    cell.hears("c", Scent((known(cell, server("b"), "c", "b"),), LINK))
    cell.hears("c", Scent((known(cell, server("d"), "c", "b", "d"),), LINK))
    cell.hears("x", Scent((known(cell, server("d"), "x", "d"),), LINK))
    assert cell.machine.scents.detours() == ()
