"""One run: components that move between nodes under faults, and the promises to check."""

from __future__ import annotations

from collections import Counter
from typing import Any

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Message
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.protocols.movement.events import MovementOptions
from australis.protocols.movement.messages import Decision
from australis.sim.faults import Fault, Inflictor
from australis.sim.harness.model import Violation
from australis.sim.movement.flow import Kind, Replica, step
from australis.sim.movement.schedule import FAULTS_US, MovementScenario
from australis.sim.network import Network
from australis.sim.world import World

EMITS_US = 20 * SECOND
LIMIT_US = 90 * SECOND
OPTIONS = MovementOptions(resend_us=200 * MILLISECOND, ready_us=6 * SECOND, switch_us=2 * SECOND)


class MovementInflictor(Inflictor):
    """Crashes nodes, which keep the replicas they own and may lose those they do not own yet."""

    def __init__(self, run: MovementSimulation) -> None:
        super().__init__(run.world, run.scenario.link, lambda node: run.hosts[node].begin())
        self._run = run
        self._owned: dict[str, set[str]] = {}

    def crash(self, node: str) -> None:
        """Record which replicas the node owns, and crash it."""
        mover = self._run.hosts[node].mover
        assert mover is not None
        self._owned[node] = set(mover.owned)
        self._run.counts["crashes"] += 1
        super().crash(node)

    def wipe(self, node: str) -> None:
        """Lose all replicas that the node does not own."""
        self._run.hosts[node].lose_guests(self._owned[node])


class MovementSimulation:
    """One run."""

    def __init__(self, scenario: MovementScenario, trace: Trace | None = None) -> None:
        self.scenario = scenario
        self.kinds = scenario.kinds
        chance = SeedTree(scenario.seed).under("run")
        self.world = World(Network(chance.stream("network"), scenario.link), trace)
        self.hosts = {
            name: scenario.host_class(
                self.world, name, chance.stream(f"node {name}"), OPTIONS, EMITS_US
            )
            for name in scenario.nodes
        }
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self._place()
        self._plan()
        self.world.tap = self._count

    # --- beginning ---------------------------------------------------------------------------

    def _place(self) -> None:
        at = self.scenario.places
        for kind in self.kinds:
            host = self.hosts[at[kind.name]]
            host.disk.replicas[kind.name] = Replica(kind)
            if not kind.client:
                host.begins_with += (kind.name,)
            for stream in kind.inputs:
                host.disk.reading[stream] = at[stream], 0
        # Every reader is known before the first tuple is written.
        for kind in self.kinds:
            for stream in kind.inputs:
                replica = self.hosts[at[stream]].disk.replicas[stream]
                mine = self.hosts[at[kind.name]].disk.replicas[kind.name]
                replica.acks[at[kind.name], mine.reader] = 0
                mine.known_to.add(stream)
        for host in self.hosts.values():
            host.begin()

    def _plan(self) -> None:
        inflictor = MovementInflictor(self)
        for planned in self.scenario.schedule:
            if isinstance(planned, Fault):
                inflictor.plan([planned])
            else:
                self.world.at(planned.at_us, self._decide, planned.component, planned.target)
        self.world.at(FAULTS_US, self.world.network.heal)

    def _decide(self, component: str, target: str) -> None:
        owner = [n for n, h in self.hosts.items() if h.mover and component in h.mover.owned]
        for name in owner:
            self.world.deliver(target, name, Decision(component, target))

    def _count(self, to: str, sender: str, message: Message) -> None:
        self.counts[type(message).__name__] += 1

    # --- running and judging ---------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Run to the end, with checks on the way and at the end."""
        while self.world.now < LIMIT_US and not self.violations:
            self.world.run(self.world.now + SECOND // 2)
            self._never_lost()
            if self.world.now > FAULTS_US and self._settled():
                break
        if not self.violations:
            self._once_settled()
        self.counts["moved"] = sum(m.done for h in self.hosts.values() for m in h.moves)
        self.counts["called off"] = sum(not m.done for h in self.hosts.values() for m in h.moves)
        return self.violations

    def _say(self, checker: str, story: str) -> None:
        self.violations.append(Violation(checker, f"{story} after {self.world.now / SECOND:g} s"))

    def _never_lost(self) -> None:
        """Some disk holds a replica of each component."""
        for kind in self.kinds:
            if not any(kind.name in host.disk.replicas for host in self.hosts.values()):
                self._say("lost", f"no node has {kind.name}")

    def _settled(self) -> bool:
        alive = [h.mover for h in self.hosts.values() if h.mover is not None]
        return (
            len(alive) == len(self.hosts) and not any(m.unsettled for m in alive) and self._done()
        )

    def _done(self) -> bool:
        written = self._written()
        return all(self._client(kind).position >= written[kind.name] for kind in self._clients)

    @property
    def _clients(self) -> list[Kind]:
        return [kind for kind in self.kinds if kind.client]

    def _client(self, kind: Kind) -> Replica:
        return next(r for h in self.hosts.values() if (r := h.disk.replicas.get(kind.name)))

    def _written(self) -> dict[str, int]:
        """The number of tuples each component has to write, given what its sources wrote."""
        found: dict[str, int] = {}
        for kind in self.kinds:
            if kind.inputs:
                found[kind.name] = min(found[s] for s in kind.inputs)
            else:
                runs = [h.disk.replicas.get(kind.name) for h in self.hosts.values()]
                found[kind.name] = max(r.position for r in runs if r is not None)
        return found

    def _once_settled(self) -> None:
        expected = _evaluate(self.kinds, self._written())
        for kind in self._clients:
            got, right = self._client(kind).log, expected[kind.name]
            if got != right[: len(got)]:
                wrong = next(i for i, (a, b) in enumerate(zip(got, right, strict=False)) if a != b)
                self._say("wrong", f"tuple {wrong + 1} of {kind.name}")
            elif len(got) < len(right):
                gaps = [gap for host in self.hosts.values() for gap in host.gaps][-1:]
                self._say("stuck", f"{kind.name} has {len(got)} of {len(right)} tuples {gaps}")
        for kind in self.kinds:
            if kind.client:
                continue
            owners = [n for n, h in self.hosts.items() if h.mover and kind.name in h.mover.owned]
            runs = [n for n, h in self.hosts.items() if kind.name in h.disk.replicas]
            if len(owners) != 1:
                self._say("owners", f"{kind.name} is owned by {owners}")
            if len(runs) != 1:
                self._say("replicas", f"{kind.name} runs at {runs}")
        if any(h.mover is None or h.mover.unsettled for h in self.hosts.values()):
            self._say("unsettled", "a move has no end")


def _evaluate(kinds: tuple[Kind, ...], written: dict[str, int]) -> dict[str, list[int]]:
    """What each component writes in a run without faults and moves."""
    found: dict[str, list[int]] = {}
    for kind in kinds:
        state, log = 1, []
        for n in range(written[kind.name]):
            taken: Any = tuple(found[s][n] for s in kind.inputs) if kind.inputs else (n,)
            state = step(state, taken)
            log.append(state)
        found[kind.name] = log
    return found
