"""One run: keepers and proposers under faults, and a calm end in which everything is decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import msgspec

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.protocols.register.events import (
    KeepersChosen,
    Kept,
    PersistKeepers,
    PersistKept,
    Started,
    Submitted,
    TellDecided,
    TellRefused,
    TellUnknown,
    TellUnreachable,
)
from australis.protocols.register.messages import Keepers, Seat
from australis.sim.faults import Inflictor
from australis.sim.harness.model import Violation
from australis.sim.network import Network
from australis.sim.register.history import Operation, check, values
from australis.sim.register.schedule import (
    EDIT,
    FAULTS_US,
    READ,
    REFUSED_EVERY,
    REPLACE,
    Act,
    RegisterScenario,
)
from australis.sim.world import Host, World

CALM_US = 25 * SECOND
"""The time that each step of the calm end may take."""


class KeeperHost(Host):
    """A keeper and its disk."""

    def __init__(self, world: World, name: str, scenario: RegisterScenario) -> None:
        super().__init__(world, name)
        self._scenario = scenario
        self._disks = 0
        self._performers |= {PersistKept: self._store, PersistKeepers: self._store_keepers}
        self.wipe()

    def wipe(self) -> None:
        """Begin with a new disk."""
        self._disks += 1
        self.seat = Seat(self.name, f"disk{self._disks if self._scenario.renames_wiped else 1}")
        self._kept: dict[str, Kept] = {}
        self._keepers = Keepers()

    def fill(self, keepers: Keepers, kept: dict[str, Kept]) -> None:
        """Have this on the disk from the beginning."""
        self._keepers, self._kept = keepers, dict(kept)

    def boot(self) -> None:
        """Start from the disk."""
        self.start(
            self._scenario.keeper_class(self.seat, self._keepers, self._kept),
            Started(self.incarnation, self._keepers),
        )

    def _store(self, effect: PersistKept) -> None:
        if self._scenario.stores_promises:
            self._kept[effect.register] = effect.kept

    def _store_keepers(self, effect: PersistKeepers) -> None:
        self._keepers = effect.keepers


class ProposerHost(Host):
    """A proposer, and what its users are told."""

    def __init__(
        self,
        world: World,
        name: str,
        scenario: RegisterScenario,
        rng: Random,
        tell: Callable[..., None],
    ) -> None:
        super().__init__(world, name)
        self._scenario = scenario
        self._rng = rng
        self._keepers = Keepers()
        self._performers |= {
            TellDecided: lambda e: tell(e.tag, "decided", e.record),
            TellRefused: lambda e: tell(e.tag, "refused", e.record),
            TellUnknown: lambda e: tell(e.tag, "unknown", None),
            TellUnreachable: lambda e: tell(e.tag, "unreachable", None),
        }

    def fill(self, keepers: Keepers) -> None:
        """Know these keepers from the beginning."""
        self._keepers = keepers

    def boot(self) -> None:
        """Start with the keepers that were known last, as a node's state file names them."""
        machine = self._scenario.proposer_class(self.name, self._scenario.options, self._rng)
        self.start(machine, Started(self.incarnation + 1, self._keepers))

    def crash(self) -> None:
        """End this incarnation; the set of keepers is remembered."""
        if self.machine is not None:
            self._keepers = self.machine.keepers  # type: ignore[attr-defined]
        super().crash()


class RegisterInflictor(Inflictor):
    """Faults of keepers and proposers."""

    def wipe(self, node: str) -> None:
        """Lose a keeper's disk."""
        host = self._world.hosts[node]
        assert isinstance(host, KeeperHost)
        host.wipe()


class RegisterSimulation:
    """One run."""

    def __init__(self, scenario: RegisterScenario, trace: Trace | None = None) -> None:
        self.scenario = scenario
        chance = SeedTree(scenario.seed).under("run")
        self.world = World(Network(chance.stream("network"), scenario.link), trace)
        self.counts: Counter[str] = Counter()
        self.operations: dict[str, Operation] = {}
        self.hosts: dict[str, KeeperHost | ProposerHost] = {
            **{n: KeeperHost(self.world, n, scenario) for n in scenario.keepers + scenario.spares},
            **{
                n: ProposerHost(self.world, n, scenario, chance.stream(f"proposer {n}"), self._tell)
                for n in scenario.proposers
            },
        }
        self._broken: list[Violation] = []

    # --- acts -------------------------------------------------------------------------------

    def _begin(self, what: str, proposer: str, register: str, picky: bool = False) -> str:
        """Begin an operation, if its proposer is up; returns its tag."""
        tag = f"{what}{len(self.operations)}"
        host = self.hosts[proposer]
        if host.machine is None:
            return ""
        self.counts[what] += 1
        self.operations[tag] = Operation(tag, register, what == EDIT, self.world.now)
        edit = Append(tag, picky) if what == EDIT else None
        host.take(Submitted(tag, register, edit))
        return tag

    def _replace(self, proposer: str, nodes: tuple[str, ...]) -> str:
        tag = f"{REPLACE}{len(self.operations)}"
        host = self.hosts[proposer]
        if host.machine is None:
            return ""
        self.counts[REPLACE] += 1
        self.operations[tag] = Operation(tag, "", False, self.world.now)
        host.take(KeepersChosen(tag, nodes))
        return tag

    def _act(self, act: Act) -> None:
        if act.what == REPLACE:
            self._replace(act.proposer, act.nodes)
        else:
            self._begin(act.what, act.proposer, act.register, act.picky)

    def _tell(self, tag: str, outcome: str, record: object) -> None:
        one = self.operations[tag]
        if one.outcome:
            self._broken.append(Violation("told", f"{tag} was {one.outcome}, and now {outcome}"))
        one.outcome, one.ended_us = outcome, self.world.now
        self.counts[outcome] += 1
        if record is not None and one.register:
            one.history, one.version = values(record.value), record.version  # type: ignore[attr-defined]
        elif outcome == "decided":
            self.counts["replaced"] += 1

    # --- the run ----------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Run to the end."""
        scenario = self.scenario
        for host in self.hosts.values():
            host.boot()
        first = self._replace(scenario.proposers[0], scenario.keepers)
        self.world.run(CALM_US)
        begun_us = self.world.now
        if not self._is_decided(first):
            return [Violation("available", "the first keepers are not decided")]
        for name in scenario.proposers:
            self._replace(name, scenario.keepers)
        self.world.run(begun_us + CALM_US)
        self._inflict(self.world.now)
        self.world.run(self.world.now + FAULTS_US)
        self.world.network.heal()
        self.world.run(self.world.now + CALM_US)
        violations = [*self._broken, *self._calm()]
        told = [one for one in self.operations.values() if one.register]
        return [*violations, *self._broken[len(violations) :], *check(told)]

    def _inflict(self, begin_us: int) -> None:
        inflictor = RegisterInflictor(self.world, self.scenario.link, self._boot)
        for planned in self.scenario.schedule:
            if isinstance(planned, Act):
                self.world.at(begin_us + planned.at_us, self._act, planned)
            else:
                self.counts[planned.kind.value] += 1
                inflictor.plan([replace(planned, at_us=begin_us + planned.at_us)])

    def _boot(self, node: str) -> None:
        self.hosts[node].boot()

    def _calm(self) -> list[Violation]:
        """In the end keepers can be replaced, and every proposer reads and edits everything."""
        scenario, found = self.scenario, []
        last = scenario.proposers[-1]
        tags = [self._replace(last, scenario.keepers)]
        self.world.run(self.world.now + CALM_US)
        for what in (EDIT, READ):
            for register in scenario.registers:
                tags += [self._begin(what, name, register) for name in scenario.proposers]
            self.world.run(self.world.now + CALM_US)
        for tag in tags:
            if not self._is_decided(tag):
                outcome = self.operations[tag].outcome or "open"
                found.append(Violation("available", f"{tag} is {outcome} after all have healed"))
        return found

    def _is_decided(self, tag: str) -> bool:
        return self.operations[tag].outcome == "decided"


@dataclass(frozen=True)
class Append:
    """An edit that appends its tag to the value."""

    tag: str
    picky: bool

    def __call__(self, value: bytes) -> bytes:
        before = values(value)
        if self.picky and len(before) % REFUSED_EVERY == 0:
            raise UserError("has a length that this edit does not take")
        return msgspec.msgpack.encode((*before, self.tag))

    @property
    def brief(self) -> str:
        """The edit in a trace."""
        return "append if the length allows it" if self.picky else "append"
