"""Three nodes and a network-monitoring query (medusa figures 12, 13; thesis figures 7-8 to 7-10).

The prototype's scenario with the machines of `protocols.contracts`: what moves when, and whether
all nodes are within capacity again. The traces are not public; their loads are modelled by hand
after the description in the papers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from australis.kernel.durations import SECOND
from australis.protocols.contracts.choices import load_of
from australis.protocols.contracts.costs import Costs, InFlight, Load
from australis.protocols.contracts.events import ContractOptions, TasksChanged
from australis.protocols.contracts.terms import Contract, Task
from australis.sim.contracts.federation import Federation
from australis.sim.network import Link, Network
from australis.sim.world import World
from research.claims import Claim, Picture, Progress, Result, Table
from research.plots import Plot, Series
from research.predicates import above, at_least, at_most, exactly, fields

CAPACITY = 0.7
"""The utilisation at which a node is at capacity."""
LAST_TASK = 0.05
"""The load beyond capacity that the last accepted task may add."""
CHEAP = 0.5
"""The level of the fourth node's contract."""
END_S = 1_000
RISES_S, RISEN_S = 650, 750
SPIKE_S, SPIKE_ENDS_S = 800, 860
JOINS_S = 500
OPTIONS = ContractOptions(
    period_us=10 * SECOND, answer_us=SECOND, resend_us=2 * SECOND, permanent=True
)
COSTS = Costs(cpu=InFlight(1.0))

Profile = Callable[[float], float]
"""The load of a partition at a time in seconds."""


def price_at(level: float) -> float:
    """The slope of the cost at a utilisation: the price that corresponds to it."""
    return 1 / (1 - level) ** 2


def utah(at_s: float) -> float:
    """The load of a partition of the Utah trace, which rises from 650 s on."""
    return 0.08 + 0.15 * min(1.0, max(0.0, (at_s - RISES_S) / (RISEN_S - RISES_S)))


def mit(at_s: float) -> float:
    """The load of a partition of the MIT trace at Node 0 and Node 2."""
    return 0.06


def spiking(at_s: float) -> float:
    """The load of a partition of the MIT trace at Node 1, with a spike at 800 s."""
    return 0.36 if SPIKE_S <= at_s < SPIKE_ENDS_S else 0.25


def steady(at_s: float) -> float:
    """The load of a fragment whose load does not change."""
    return 0.1


@dataclass
class Watched:
    """A run: the load of each node over time, and the movements."""

    federation: Federation
    profiles: dict[str, Profile]
    loads: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    moves: list[tuple[float, str, str, str]] = field(default_factory=list)
    """The time, task, source and target of each movement."""

    def run(self, until_s: float) -> None:
        """Run second by second, with loads that follow the profiles."""
        world = self.federation.world
        while world.now < until_s * SECOND:
            before = self._places()
            at_s = world.now / SECOND
            for name, machine in self.federation.machines.items():
                now_there = tuple(
                    Task(task.name, Load(cpu=self.profiles[task.name](at_s)), task.origin)
                    for task in machine.holdings.tasks.values()
                )
                self.federation.hosts[name].take(TasksChanged(now_there))
                total = load_of(now_there).cpu
                self.loads.setdefault(name, []).append((at_s, total))
            world.run(world.now + SECOND)
            for task, place in self._places().items():
                if before[task] != place:
                    self.moves.append((at_s, task, before[task], place))

    def _places(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, machine in self.federation.machines.items():
            found |= dict.fromkeys(machine.holdings.tasks, name)
        return found

    def at(self, node: str, at_s: float) -> float:
        """A node's load at a time."""
        return min(self.loads[node], key=lambda sample: abs(sample[0] - at_s))[1]


class MedusaPrototype:
    """The rising load and the spike; then a cheaper node joins an overloaded system."""

    name = "medusa-prototype"
    description = "Three nodes with a rising load and a spike; a fourth, cheaper one joins."
    reproduces = "medusa figures 12, 13; thesis figures 7-8 to 7-10"
    duration = "5 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Both scenarios."""
        progress("three nodes")
        three = _three()
        three.run(END_S)
        progress("a fourth node")
        four = _four()
        four.run(END_S)
        return Result(
            (*_claims(three), *_joining(four)),
            (_moves("Figure 13: what moves", three), _moves("Figure 7-10 (b): what moves", four)),
            _DEVIATIONS,
            (_picture("13", "Figure 13: load at three nodes", three),
             _picture("7-10", "Figure 7-10 (b): a fourth node joins at 500 s", four)),
        )  # fmt: skip


def _contracts(pairs: list[tuple[str, str, float]]) -> list[Contract]:
    return [
        Contract(buyer=a, seller=b, low=price_at(level), high=price_at(level), duration_us=10 * SECOND)
        for one, two, level in pairs
        for a, b in ((one, two), (two, one))
    ]  # fmt: skip


def _watched(begins: dict[str, dict[str, Profile]], pairs: list[tuple[str, str, float]]) -> Watched:
    profiles = {task: profile for tasks in begins.values() for task, profile in tasks.items()}
    tasks = {
        node: [Task(name, Load(cpu=profile(0)), node) for name, profile in mine.items()]
        for node, mine in begins.items()
    }
    costs = dict.fromkeys(begins, COSTS)
    wakes = {node: n * SECOND for n, node in enumerate(begins)}
    world = World(Network(Random(1), Link()))
    federation = Federation(world, _contracts(pairs), tasks, costs, OPTIONS, wakes)
    return Watched(federation, profiles)


def _three() -> Watched:
    begins: dict[str, dict[str, Profile]] = {
        "node 0": {
            **{f"utah {n}": utah for n in range(4)},
            **{f"mit {n}": mit for n in range(3)},
        },
        "node 1": {f"mit at 1/{n}": spiking for n in range(2)},
        "node 2": {"mit at 2": mit},
    }
    level = CAPACITY
    pairs = [("node 0", "node 1", level), ("node 0", "node 2", level), ("node 1", "node 2", level)]
    return _watched(begins, pairs)


def _four() -> Watched:
    """Node 0 at capacity, node 1 above, node 2 just below; node 3 has a contract with it alone."""
    begins: dict[str, dict[str, Profile]] = {
        "node 0": {f"a{n}": steady for n in range(7)},
        "node 1": {f"b{n}": steady for n in range(9)},
        "node 2": {f"c{n}": steady for n in range(7)},
        "node 3": {"d": steady},
    }
    level = CAPACITY
    pairs = [
        ("node 0", "node 1", level),
        ("node 0", "node 2", level),
        ("node 1", "node 2", level),
    ]
    watched = _watched(begins, pairs)
    cheap = _contracts([("node 2", "node 3", CHEAP)])

    def join() -> None:
        watched.federation.sign(cheap)

    watched.federation.world.at(JOINS_S * SECOND, join)
    return watched


def _claims(run: Watched) -> list[Claim]:
    rising = [m for m in run.moves if RISES_S <= m[0] < SPIKE_S]
    early = [m for m in run.moves if m[0] < RISES_S]
    spike = [m for m in run.moves if SPIKE_S <= m[0] < SPIKE_ENDS_S + 20]
    late = [m for m in run.moves if m[0] >= SPIKE_ENDS_S + 20]
    to_one = [m for m in rising if m[2:] == ("node 0", "node 1")]
    to_two = [m for m in rising if m[2:] == ("node 0", "node 2")]
    last_one, last_two = (max((m[0] for m in moves), default=0.0) for moves in (to_one, to_two))
    return [
        Claim("Before the load rises nothing moves", len(early), exactly(0), 0),
        Claim(
            "As it rises Node 0 sheds to Node 1 first (moments)",
            {"moments": len({m[0] for m in to_one}), "first_to": rising[0][3] if rising else ""},
            fields(moments=at_least(1), first_to=exactly("node 1")),
            2,
            shown=len({m[0] for m in to_one}),
        ),
        Claim(
            "then Node 1 refuses and Node 0 sheds to Node 2 (moments)",
            {"moments": len({m[0] for m in to_two}), "seconds_later": last_two - last_one},
            fields(moments=at_least(1), seconds_later=above(0)),
            1,
            shown=len({m[0] for m in to_two}),
        ),
        _within(run, "Before the spike all work within capacity", SPIKE_S - 10),
        Claim(
            "The spike makes Node 1 shed to Node 2 (tasks)",
            sum(m[2:] == ("node 1", "node 2") for m in spike),
            at_least(1),
            1,
        ),
        _within(run, "During the spike all work within capacity again", SPIKE_ENDS_S - 5),
        Claim("When it ends nothing moves back", len(late), exactly(0), 0),
    ]


def _within(run: Watched, text: str, at_s: float) -> Claim:
    most = max(run.at(node, at_s) for node in run.loads)
    return Claim(f"{text} (highest load)", most, at_most(CAPACITY + LAST_TASK))


def _joining(run: Watched) -> list[Claim]:
    before = run.at("node 1", JOINS_S - 5)
    first = next((m for m in run.moves if m[0] >= JOINS_S), None)
    through = [m for m in run.moves if m[2:] == ("node 1", "node 2") and m[0] >= JOINS_S]
    return [
        Claim("Without the fourth node, Node 1 stays overloaded", before, above(CAPACITY)),
        Claim(
            "Node 2 moves load to the cheaper Node 3 first",
            f"{first[2]} to {first[3]}" if first else "nothing moves",
            exactly("node 2 to node 3"),
            "node 2 to node 3",
        ),
        Claim(
            "which makes room for what Node 1 has too much (tasks)",
            len(through),
            at_least(2),
        ),
        _within(run, "In the end all work within capacity", END_S),
    ]


def _moves(title: str, run: Watched) -> Table:
    rows = tuple((round(at_s), task, a, b) for at_s, task, a, b in run.moves)
    return Table(title, ("at (s)", "fragment", "from", "to"), rows)


def _picture(name: str, title: str, run: Watched) -> Picture:
    curves = [Series(node, tuple(samples[::5])) for node, samples in run.loads.items()]
    return Picture(name, Plot(title, "time (s)", "CPU utilisation", curves))


_DEVIATIONS = (
    "The traces are not public: loads rise from 650 to 750 s and spike from 800 to 860 s by hand.",
    "Tasks move for good, as in the prototype; it takes a message each way instead of 75 ms.",
    "A node is full when its last task costs more than the price; that task may reach a little above"
    " the level which corresponds to the price, so all count as within capacity up to 0.75.",
)
EXPERIMENT = MedusaPrototype()
