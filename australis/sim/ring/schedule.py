"""Draws from a seed a ring, peers that join and depart, their registrations, and faults."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.ring.events import RingOptions
from australis.protocols.ring.peer import RingMachine
from australis.sim.faults import Fault, Kind, Moment, draw_faults
from australis.sim.network import Link

FAULTS_US = 40 * SECOND
"""Everything planned is over before this moment; then all faults heal."""
JOIN, DEPART, REGISTER, WITHDRAW, LOOK_UP = "join", "depart", "register", "withdraw", "look up"
NAMES = tuple(f"operator{i}" for i in range(8))


@dataclass(frozen=True)
class Act(Moment):
    """A peer joins or departs, or its user changes what is registered or looked up."""

    at_us: int
    peer: str
    what: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:8.2f} s: {self.peer} is to {self.what} {self.name}".rstrip()


@dataclass(frozen=True)
class Split:
    """A partition of the peers for a while."""

    at_us: int
    lasts_us: int
    peers: tuple[str, ...]

    @property
    def until_us(self) -> int:
        """When the partition ends."""
        return self.at_us + self.lasts_us

    def __str__(self) -> str:
        return (
            f"{self.at_us / 1e6:8.2f} s: {', '.join(self.peers)} are cut off for"
            f" {self.lasts_us / 1e6:.2f} s"
        )


Planned = Fault | Act | Split


@dataclass(frozen=True)
class RingScenario:
    """Everything that a run depends on."""

    seed: int
    peers: tuple[str, ...]
    """The peers at the beginning."""
    contacts: tuple[str, ...]
    """The peers through which all others join; they never depart."""
    assembled: bool
    """Whether the ring is complete at the beginning; otherwise peers join one by one."""
    options: RingOptions
    link: Link
    schedule: tuple[Planned, ...]
    machine_class: type[RingMachine] = RingMachine


def draw(seed: int, chance: SeedTree) -> RingScenario:
    """Draw the scenario of a seed."""
    rng = chance.stream("peers")
    peers = tuple(f"p{i}" for i in range(rng.randint(3, 14)))
    contacts = peers[:3]
    joining = tuple(f"new{i}" for i in range(rng.randint(0, 4)))
    schedule: list[Planned] = [
        *_acts(chance.stream("acts"), peers, joining),
        *draw_faults(
            chance.stream("crashes"), peers, {Kind.CRASH: 4, Kind.PAUSE: 2}, FAULTS_US, 9 * SECOND
        ),
        *draw_faults(
            chance.stream("links"),
            peers,
            {Kind.CUT: 2, Kind.CUT_ONE_WAY: 2, Kind.LOSSY: 3, Kind.ISOLATE: 2},
            FAULTS_US,
            12 * SECOND,
        ),
        *_splits(chance.stream("splits"), peers),
    ]
    schedule.sort(key=lambda planned: planned.at_us)
    return RingScenario(
        *(seed, peers, contacts, chance.stream("begins").random() < 0.7),
        options=_options(chance.stream("options")),
        link=_link(chance.stream("network")),
        schedule=tuple(schedule),
    )


def _options(rng: Random) -> RingOptions:
    """Options with short maintenance intervals, so that a run need not take an hour."""
    return RingOptions(
        successors=rng.choice((3, 4, 8)),
        copies=rng.choice((1, 2)),
        stabilise_us=rng.choice((500, 1000)) * MILLISECOND,
        fingers_us=SECOND,
        meet_us=5 * SECOND,
        keep_alive_us=8 * SECOND,
    )


def _link(rng: Random) -> Link:
    loss = rng.choice((0.0, 0.0, 0.02, 0.1))
    return Link(
        latency_us=rng.choice((1, 20, 80)) * MILLISECOND,
        jitter_us=20 * MILLISECOND,
        loss=loss,
        duplicate=rng.choice((0.0, 0.1)),
        in_order=rng.random() < 0.5,
    )


def _acts(rng: Random, peers: tuple[str, ...], joining: tuple[str, ...]) -> list[Act]:
    acts = [Act(rng.randrange(1, FAULTS_US), name, JOIN) for name in joining]
    going = [*peers[3:], *joining]
    for name in rng.sample(going, min(len(going), rng.randint(0, 3))):
        acts.append(Act(rng.randrange(FAULTS_US // 2, FAULTS_US), name, DEPART))
    for what, most in ((REGISTER, 12), (WITHDRAW, 4), (LOOK_UP, 20)):
        for _ in range(rng.randint(0, most)):
            at_us, peer = rng.randrange(1, FAULTS_US), rng.choice([*peers, *joining])
            acts.append(Act(at_us, peer, what, rng.choice(NAMES)))
    return acts


def _splits(rng: Random, peers: tuple[str, ...]) -> list[Split]:
    if rng.random() < 0.6:
        return []
    lasts_us = rng.randrange(SECOND, 30 * SECOND)
    some = tuple(sorted(rng.sample(peers, rng.randint(1, len(peers) - 1))))
    return [Split(rng.randrange(1, FAULTS_US - lasts_us), lasts_us, some)]
