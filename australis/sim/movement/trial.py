"""One seed: a random diagram on random nodes, moves, faults in every phase, and what must hold."""

from __future__ import annotations

from random import Random
from typing import Any

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Message
from australis.kernel.trace import Trace
from australis.protocols.movement.events import MovementOptions
from australis.protocols.movement.messages import Decision
from australis.sim.movement.flow import Kind, Replica, step
from australis.sim.movement.host import FlowHost
from australis.sim.network import Link, Network
from australis.sim.seeds import Violation
from australis.sim.world import World

EMITS_US = 20 * SECOND
FAULTS_US = 25 * SECOND
"""Faults and moves come before this; then everything heals."""
LIMIT_US = 90 * SECOND
OPTIONS = MovementOptions(resend_us=200 * MILLISECOND, ready_us=6 * SECOND, switch_us=2 * SECOND)


class Trial:
    """One run."""

    def __init__(
        self,
        seed: int,
        host_class: type[FlowHost] = FlowHost,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        loss = rng.choice((0.0, 0.02, 0.1, 0.3))
        link = Link(
            latency_us=rng.choice((1, 20, 80)) * MILLISECOND,
            jitter_us=20 * MILLISECOND,
            loss=loss,
            duplicate=loss / 2,
            in_order=rng.random() < 0.5,
        )
        self.world = World(Network(Random(rng.random()), link), trace)
        self.kinds = _diagram(rng)
        self.nodes = [f"n{i}" for i in range(rng.randint(3, 6))]
        self.hosts = {
            name: host_class(self.world, name, Random(rng.random()), OPTIONS, EMITS_US)
            for name in self.nodes
        }
        self.violations: list[Violation] = []
        self.counts: dict[str, int] = {}
        self._place()
        self._plan()
        self.world.tap = self._count

    # --- beginning ---------------------------------------------------------------------------

    def _place(self) -> None:
        at = {kind.name: self.rng.choice(self.nodes) for kind in self.kinds}
        for kind in self.kinds:
            host = self.hosts[at[kind.name]]
            host.disk.replicas[kind.name] = Replica(kind)
            if not kind.client:
                host.begins_with += (kind.name,)
            for stream in kind.inputs:
                host.disk.reading[stream] = at[stream], 0
        # Whoever reads is known before the first tuple is written.
        for kind in self.kinds:
            for stream in kind.inputs:
                replica = self.hosts[at[stream]].disk.replicas[stream]
                mine = self.hosts[at[kind.name]].disk.replicas[kind.name]
                replica.acks[at[kind.name], mine.reader] = 0
                mine.known_to.add(stream)
        for host in self.hosts.values():
            host.begin()

    def _plan(self) -> None:
        rng, world = self.rng, self.world
        movable = [kind.name for kind in self.kinds if kind.inputs and not kind.client]
        for _ in range(rng.randint(1, 12)):
            component, target = rng.choice(movable), rng.choice(self.nodes)
            world.at(rng.randrange(FAULTS_US), self._decide, component, target)
        for _ in range(rng.randint(0, 5)):
            node, at = rng.choice(self.nodes), rng.randrange(FAULTS_US)
            world.at(at, self._crash, node, rng.randrange(100 * MILLISECOND, 8 * SECOND))
        for _ in range(rng.randint(0, 5)):
            a, b = rng.sample(self.nodes, 2)
            at = rng.randrange(FAULTS_US)
            back = at + rng.randrange(100 * MILLISECOND, 10 * SECOND)
            both = rng.random() < 0.7
            for pair in ((a, b), (b, a)) if both else ((a, b),):
                world.at(at, world.network.cut, *pair)
                world.at(min(back, FAULTS_US), world.network.mend, *pair)
        world.at(FAULTS_US, self._heal)

    def _decide(self, component: str, target: str) -> None:
        owner = [n for n, h in self.hosts.items() if h.mover and component in h.mover.owned]
        for name in owner:
            self.world.deliver(target, name, Decision(component, target))

    def _crash(self, node: str, for_us: int) -> None:
        host = self.hosts[node]
        if host.mover is not None:
            if self.rng.random() < 0.3:  # what is not its own yet is not kept as carefully
                host.lose_guests()
            host.crash()
            self.counts["crashes"] = self.counts.get("crashes", 0) + 1
            self.world.at(min(self.world.now + for_us, FAULTS_US), host.begin)

    def _heal(self) -> None:
        for a in self.nodes:
            for b in self.nodes:
                link = self.world.network.link(a, b)
                link.loss = link.duplicate = 0.0

    def _count(self, to: str, sender: str, message: Message) -> None:
        name = type(message).__name__
        self.counts[name] = self.counts.get(name, 0) + 1

    # --- running and judging ---------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Let it happen, and look at it as it goes on and in the end."""
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
        self.violations.append(Violation(self.seed, checker, f"{self.world.now / SECOND}: {story}"))

    def _never_lost(self) -> None:
        """On some disk there is a replica of each component."""
        for kind in self.kinds:
            if not any(kind.name in host.disk.replicas for host in self.hosts.values()):
                self._say("lost", f"nobody has {kind.name}")

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
        """How many tuples each component has to write, by what its sources wrote."""
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


def _diagram(rng: Random) -> list[Kind]:
    """Sources, components that read them or each other, and clients; each is read by somebody."""
    kinds = [Kind(f"source{i}") for i in range(rng.randint(1, 2))]
    for i in range(rng.randint(1, 4)):
        streams = [kind.name for kind in kinds]
        chosen = rng.sample(streams, min(len(streams), rng.randint(1, 2)))
        kinds.append(Kind(f"c{i}", tuple(chosen)))
    read = {stream for kind in kinds for stream in kind.inputs}
    ends = [kind.name for kind in kinds if kind.name not in read]
    extra = [rng.choice(kinds).name] if rng.random() < 0.5 else []
    clients = [Kind(f"client{i}", (name,), client=True) for i, name in enumerate(ends + extra)]
    return kinds + clients


def _evaluate(kinds: list[Kind], written: dict[str, int]) -> dict[str, list[int]]:
    """What each component writes if nothing ever fails or moves."""
    found: dict[str, list[int]] = {}
    for kind in kinds:
        state, log = 1, []
        for n in range(written[kind.name]):
            taken: Any = tuple(found[s][n] for s in kind.inputs) if kind.inputs else (n,)
            state = step(state, taken)
            log.append(state)
        found[kind.name] = log
    return found
