"""Draws from a seed keepers, proposers, what their users do, and faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.register.events import RegisterOptions
from australis.protocols.register.keeper import KeeperMachine
from australis.protocols.register.proposer import ProposerMachine
from australis.sim.faults import Fault, Kind, Moment, draw_faults
from australis.sim.network import Link

FAULTS_US = 40 * SECOND
"""Everything planned is over before this moment; then all faults heal."""
EDIT, READ, REPLACE = "edit", "read", "replace"
REFUSED_EVERY = 5
"""An edit is refused if the value has a length that is a multiple of this, once in a while."""


@dataclass(frozen=True)
class Act(Moment):
    """A user of a proposer edits a register, reads it, or replaces the keepers."""

    at_us: int
    proposer: str
    what: str
    register: str = ""
    nodes: tuple[str, ...] = ()
    picky: bool = False
    """Whether the edit has a precondition, which does not always hold."""

    def __str__(self) -> str:
        on = self.register or ", ".join(self.nodes)
        return f"{self.at_us / 1e6:8.2f} s: {self.proposer} is to {self.what} {on}"


@dataclass(frozen=True)
class RegisterScenario:
    """Everything that a run depends on."""

    seed: int
    keepers: tuple[str, ...]
    """The keepers at the beginning."""
    spares: tuple[str, ...]
    """Nodes that may become keepers."""
    proposers: tuple[str, ...]
    registers: tuple[str, ...]
    options: RegisterOptions
    link: Link
    schedule: tuple[Act | Fault, ...]
    keeper_class: type[KeeperMachine] = KeeperMachine
    proposer_class: Callable[..., ProposerMachine] = ProposerMachine
    stores_promises: bool = True
    """Whether a keeper's disk stores what the keeper says."""
    renames_wiped: bool = True
    """Whether a new disk has a new identity."""


def draw(seed: int, chance: SeedTree) -> RegisterScenario:
    """Draw the scenario of a seed."""
    rng = chance.stream("nodes")
    keepers = tuple(f"k{i}" for i in range(rng.choice((1, 3, 3, 3, 5))))
    spares = tuple(f"n{i}" for i in range(rng.randint(0, 2)))
    proposers = tuple(f"p{i}" for i in range(rng.randint(1, 5)))
    registers = tuple(f"r{i}" for i in range(rng.randint(1, 3)))
    schedule: list[Act | Fault] = [
        *_operations(chance.stream("operations"), proposers, registers),
        *_replacements(chance.stream("replacements"), proposers, keepers, spares),
        *_faults(chance, keepers, spares, proposers),
    ]
    schedule.sort(key=lambda planned: planned.at_us)
    return RegisterScenario(
        *(seed, keepers, spares, proposers, registers),
        options=_options(chance.stream("options")),
        link=_link(chance.stream("network")),
        schedule=tuple(schedule),
    )


def _operations(rng: Random, proposers: tuple[str, ...], registers: tuple[str, ...]) -> list[Act]:
    found = []
    crowd = rng.random() < 0.3
    for _ in range(rng.randint(5, 60)):
        at_us = rng.randrange(1, 5 * SECOND if crowd else FAULTS_US)
        what = rng.choice((EDIT, EDIT, READ))
        act = Act(at_us, rng.choice(proposers), what, rng.choice(registers), (), rng.random() < 0.2)
        found.append(act)
    return found


def _replacements(
    rng: Random, proposers: tuple[str, ...], keepers: tuple[str, ...], spares: tuple[str, ...]
) -> list[Act]:
    found = []
    for _ in range(rng.randint(0, 3)):
        size = rng.choice((len(keepers), len(keepers), 3))
        there = (*keepers, *spares)
        nodes = tuple(sorted(rng.sample(there, min(size, len(there)))))
        found.append(Act(rng.randrange(1, FAULTS_US), rng.choice(proposers), REPLACE, "", nodes))
    return found


def _faults(
    chance: SeedTree,
    keepers: tuple[str, ...],
    spares: tuple[str, ...],
    proposers: tuple[str, ...],
) -> list[Fault]:
    everyone = (*keepers, *spares, *proposers)
    found = draw_faults(
        chance.stream("crashes"), everyone, {Kind.CRASH: 6, Kind.PAUSE: 3}, FAULTS_US, 6 * SECOND
    )
    if len(everyone) > 1:
        most = {Kind.CUT: 4, Kind.CUT_ONE_WAY: 3, Kind.LOSSY: 4, Kind.ISOLATE: 2}
        found += draw_faults(chance.stream("links"), everyone, most, FAULTS_US, 10 * SECOND)
    if len(keepers) >= 3:  # one disk is lost at most: no majority outlives the loss of two of three
        found += draw_faults(chance.stream("disks"), keepers, {Kind.WIPE: 1}, FAULTS_US, 6 * SECOND)
    return list(found)


def _options(rng: Random) -> RegisterOptions:
    return RegisterOptions(
        resend_us=rng.choice((200, 500)) * MILLISECOND, deadline_us=rng.choice((10, 20)) * SECOND
    )


def _link(rng: Random) -> Link:
    return Link(
        latency_us=rng.choice((1, 20, 80)) * MILLISECOND,
        jitter_us=rng.choice((1, 20, 150)) * MILLISECOND,
        loss=rng.choice((0.0, 0.02, 0.1)),
        duplicate=rng.choice((0.0, 0.1)),
        in_order=rng.random() < 0.5,
    )
