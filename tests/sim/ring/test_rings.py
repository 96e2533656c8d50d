"""Rings of peers: lookups that find their way, and entries that outlive whoever kept them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from australis.kernel.durations import SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.ring.events import (
    Departed,
    Fetched,
    LookedUp,
    Registered,
    RingOptions,
    Withdrawn,
)
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.table import Table
from australis.sim.harness.model import Setup, Tally
from australis.sim.harness.search import judge
from australis.sim.network import Link, Network
from australis.sim.ring.model import MODEL
from australis.sim.ring.rings import Ring
from australis.sim.ring.schedule import Split

SEEDS = 40
"""`make sim` runs two thousand."""
NAMES = [f"operator{i}" for i in range(40)]


def ring(size: int, seed: int = 1, loss: float = 0.0, assemble: bool = True) -> Ring:
    found = Ring(Network(Random(seed), Link(loss=loss)), SeedTree(seed), RingOptions())
    names = [f"p{i}" for i in range(size)]
    if assemble:
        found.assemble(names)
        return found
    found.join(names[0])
    for at, name in enumerate(names[1:], 1):
        found.world.run(at * SECOND // 4)
        found.join(name, (Random(at).choice(names[:at]),))
    return found


def all_found(one: Ring, names: list[str], askers: int = 5) -> list[int]:
    """Every lookup from some peers finds whoever is responsible; the numbers of hops."""
    hops = []
    peers = Random(7).sample(sorted(one.present), min(askers, len(one.present)))
    for name in names:
        for peer in peers:
            one.hosts[peer].take(LookedUp(name, name))
    one.world.run(one.world.now + 20 * SECOND)
    for name in names:
        right = one.responsible(name)
        for peer in peers:
            assert one.hosts[peer].found[name][0][:1] == (right,), (name, peer)
            hops.append(one.hosts[peer].found.pop(name)[1])
    return hops


def test_a_peer_alone_is_responsible_for_everything() -> None:
    one = ring(1)
    assert all_found(one, NAMES) == [0] * len(NAMES)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_peers_that_join_make_one_ring(loss: float) -> None:
    one = ring(24, loss=loss, assemble=False)
    one.world.run(120 * SECOND)
    all_found(one, NAMES)
    order = sorted(one.present, key=lambda name: one.machine(name).table.key)
    for at, name in enumerate(order):
        assert one.machine(name).table.after[0] == order[(at + 1) % len(order)]
        assert one.machine(name).table.before == order[at - 1]


def test_lookups_take_half_of_the_logarithm() -> None:
    hops = all_found(ring(1_000), NAMES, askers=20)
    assert sum(hops) / len(hops) < 6.5  # log2(1000) / 2 is 5


def test_entries_are_found_wherever_they_are_asked_for() -> None:
    one = ring(30)
    for i, name in enumerate(NAMES):
        one.hosts[f"p{i % 30}"].take(Registered(name, f"{i}".encode()))
        one.hosts[f"p{(i + 7) % 30}"].take(Registered(name, f"{i}'".encode()))
    one.world.run(10 * SECOND)
    one.hosts["p7"].take(Withdrawn(NAMES[0]))
    one.world.run(20 * SECOND)
    for i, name in enumerate(NAMES):
        one.hosts[f"p{(i + 3) % 30}"].take(Fetched(name, name))
    one.world.run(30 * SECOND)
    for i, name in enumerate(NAMES):
        entries = one.hosts[f"p{(i + 3) % 30}"].kept[name]
        assert entries is not None
        values = {entry.value for entry in entries}
        assert values == ({b"0"} if i == 0 else {f"{i}".encode(), f"{i}'".encode()}), name


def entries_there(one: Ring, owners: dict[str, str]) -> list[str]:
    """Names whose entry the responsible peer does not have."""
    missing = []
    for name, owner in owners.items():
        kept = one.machine(one.responsible(name)).store.under(name, one.world.now)
        if owner not in {entry.owner for entry in kept}:
            missing.append(name)
    return missing


@pytest.mark.parametrize("seed", range(4))
def test_a_tenth_fails_at_once(seed: int) -> None:
    """Lookups stay right, copies step in, and what is lost with all copies comes back."""
    one = ring(200, seed)
    rng = Random(seed)
    dead = set(rng.sample(sorted(one.present), 20))
    alive = sorted(set(one.present) - dead)
    owners = {f"{name}-{i}": rng.choice(alive) for i in range(5) for name in NAMES}
    for name, owner in owners.items():
        one.hosts[owner].take(Registered(name, b"here"))
    one.world.run(30 * SECOND)
    assert not entries_there(one, owners)
    for name in dead:
        one.hosts[name].crash()
    all_found(one, NAMES)
    all_found(one, NAMES)
    assert len(entries_there(one, owners)) <= 2, "copies at the next two peers step in"
    one.world.run(one.world.now + RingOptions().keep_alive_us)
    assert not entries_there(one, owners)


def test_what_nobody_would_keep_at_first_is_kept_soon() -> None:
    """Everybody who had it fails, and their neighbours have not noticed when it comes again."""
    options = RingOptions(stabilise_us=5 * SECOND, keep_alive_us=1_000 * SECOND)
    one = Ring(Network(Random(1), Link()), SeedTree(2), options)
    one.assemble([f"p{i}" for i in range(30)])
    owner = next(p for p in one.present if p not in holders(one, "it"))
    one.hosts[owner].take(Registered("it", b"here"))
    one.world.run(10 * SECOND)
    for name in holders(one, "it"):
        one.hosts[name].crash()
    one.hosts[owner].take(Registered("it", b"here"))
    one.world.run(40 * SECOND)
    assert not entries_there(one, {"it": owner})


def holders(one: Ring, name: str) -> list[str]:
    """The responsible peer and those with copies."""
    first = one.responsible(name)
    return [first, *one.machine(first).table.after[: one.options.copies]]


def test_whoever_leaves_hands_over_what_it_keeps() -> None:
    one = ring(12)
    owners = dict.fromkeys(NAMES, "p0")
    for name in NAMES:
        one.hosts["p0"].take(Registered(name, b"here"))
    one.world.run(5 * SECOND)
    for name in ("p3", "p4", "p5"):
        one.hosts[name].take(Departed())
        one.hosts[name].crash()
    one.world.run(one.world.now + 2 * SECOND)
    assert not entries_there(one, owners)
    one.world.run(one.world.now + 10 * SECOND)
    all_found(one, NAMES)


def test_two_halves_become_one_ring_again() -> None:
    one = ring(20, seed=3)
    peers = sorted(one.present)
    left, right = peers[:10], peers[10:]
    pairs = [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right]
    for pair in pairs:
        one.world.network.cut(*pair)
    one.world.run(60 * SECOND)
    assert set(one.machine(left[0]).table.after) <= set(left)
    for pair in pairs:
        one.world.network.mend(*pair)
    one.world.run(360 * SECOND)
    all_found(one, NAMES)


@pytest.mark.parametrize("apart", [("p3", "p6", "p9"), ("p6", "p7", "p8", "p11")])
def test_a_ring_comes_together_though_all_know_the_same_few_contacts(
    apart: tuple[str, ...],
) -> None:
    """None of them need be next to anybody of the other part."""
    scenario = replace(
        MODEL.draw("", 1),
        peers=tuple(f"p{i}" for i in range(14)),
        contacts=("p0", "p1", "p2"),
        assembled=False,
        schedule=(Split(6 * SECOND, 25 * SECOND, apart),),
    )
    run = MODEL.build(scenario)
    run.world.run(30 * SECOND)
    assert set(run.ring.machine(apart[0]).table.after) <= set(apart)
    assert run.run() == []


def test_in_a_small_ring_a_peer_that_has_gone_is_forgotten() -> None:
    """What comes around the circle again is not handed on."""
    table = Table("p6", successors=8)
    order = sorted(["p0", "p1", "p2", "p4", "p6"], key=key_of)
    behind = order[order.index("p6") + 1 :] + order[: order.index("p6")]
    assert table.follow([*behind, "p6", "p4"])
    assert table.after == behind
    gone = behind.pop(0)
    table.follow([*behind, gone])
    assert table.after == behind


def test_every_seed_keeps_its_promises() -> None:
    tally = Tally(MODEL)
    for seed in range(SEEDS):
        result = judge(Setup(MODEL), seed)
        assert result.violations == ()
        tally.add(result)
    assert not tally.rare(SEEDS // 8), "hardly tested"
