"""Scenarios drawn from a seed: a small diagram on a few nodes, and faults of every kind.

What is drawn is the text of a scenario file, so that a round of `australis chaos` can be run again,
changed, and run in the simulated world.

>>> text(7, "reference") == text(7, "reference")
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

import yaml

from australis.deployment.cluster import Engine
from australis.diagram.diagram_file import load_document
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.durations import MILLISECOND, SECOND, format_duration
from australis.kernel.rng import SeedTree
from australis.scenarios.check import interfere, lost_fragments, reach
from australis.scenarios.model import CLIENT, Fault, FaultKind
from australis.yamlfile.document import parse

Operators = dict[str, dict[str, Any]]

_COUNTS: dict[str, Any] = {"window": "1 s", "by": ["protocol"], "compute": {"n": "count(*)"}}
_BY_FIVE: dict[str, Any] = {
    "window": "5 tuples",
    "slide": "2 tuples",
    "by": ["protocol"],
    "compute": {"n": "count(*)", "most": "max(bytes)"},
}
_PAIRS: dict[str, Any] = {
    "within": "100 ms",
    "on": "left.port = right.port and left.protocol = right.protocol",
    "select": {"port": "left.port", "one": "left.src", "other": "right.src"},
}


@dataclass(frozen=True)
class Shape:
    """A small diagram over the streams of two sites."""

    operators: Operators
    fragments: dict[str, list[str]] | None = None
    """How it is cut by hand; None: it is not."""
    outputs: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = ("reference", "spark")
    """The engines that can compute it."""


SHAPES: dict[str, Shape] = {
    "chain": Shape(
        {
            "merged": {"union": ["site0", "site1"]},
            "large": {"filter": "merged", "where": "bytes > 1000"},
            "counts": {"aggregate": "large", **_COUNTS},
        },
        {"near": ["merged", "large"], "far": ["counts"]},
    ),
    "join": Shape({"pairs": {"join": ["site0", "site1"], **_PAIRS}}),
    "count_window": Shape(
        {"merged": {"union": ["site0", "site1"]}, "five": {"aggregate": "merged", **_BY_FIVE}}
    ),
    "outputs": Shape(
        {
            "merged": {"union": ["site0", "site1"]},
            "large": {"filter": "merged", "where": "bytes > 2000"},
            "counts": {"aggregate": "merged", **_COUNTS},
            "pairs": {"join": ["site0", "large"], **_PAIRS},
        },
        outputs=("large", "counts", "pairs"),
    ),
    "two_applications": Shape(
        {
            "counts": {"aggregate": "site0", **_COUNTS},
            "web": {"filter": "site1", "where": "port = 443"},
            "five": {"aggregate": "web", **_BY_FIVE},
        },
    ),
    "function": Shape(
        {
            "merged": {"union": ["site0", "site1"]},
            "own": {"spark": "merged", "function": "australis.scenarios.functions:large"},
        },
        engines=("spark",),
    ),
}
"""The diagrams that are drawn, by name."""


QUIET_MS = 2000
"""How much longer the quiet time before the first fault is than `max_delay` and a bucket."""


POLICIES: tuple[tuple[str, str | bool], ...] = (
    ("up_failure", "delay"),
    ("up_failure", "suspend"),
    ("stabilization", "process"),
    ("stabilization", "suspend"),
    ("staggered", True),
    ("hedged", True),
)
"""The policies that are drawn, one at a time."""


@dataclass(frozen=True)
class Pace:
    """What suits the speed of an engine."""

    buckets_ms: tuple[int, ...]
    delays_s: tuple[int, ...]
    lasts_s: tuple[int, int]
    """How long a round lasts after its quiet time and its `max_delay`."""
    faults: tuple[int, int]
    """The smallest and the largest number of draws of a fault."""
    longest_ms: int
    """The longest duration of a fault."""
    nodes: tuple[int, int]
    """The smallest and the largest number of nodes that compute."""
    within_s: int
    """The time after the last fault within which the client must have everything."""
    takes_over_s: int
    """The longest silence while the standby of a source takes over."""


PACES: dict[Engine, Pace] = {
    "reference": Pace((100, 250), (2, 3, 4, 6), (8, 11), (1, 4), 5000, (2, 4), 30, 10),
    "spark": Pace((500, 1000), (6, 8, 10), (12, 20), (1, 3), 10000, (2, 2), 90, 20),
}


def text(seed: int, engine: Engine) -> str:
    """The text of the scenario file that a seed gives for nodes with this engine."""
    document = _document(seed, engine)
    return yaml.safe_dump(document, sort_keys=False, width=100)


def _document(seed: int, engine: Engine) -> dict[str, Any]:
    chance, pace = SeedTree(seed), PACES[engine]
    rng = chance.stream("diagram")
    name = rng.choice([name for name, shape in SHAPES.items() if engine in shape.engines])
    written = _diagram(name, rng, pace)
    diagram = load_document(parse(yaml.safe_dump(written, sort_keys=False), "drawn"))
    places = _Places.drawn(diagram, chance.stream("places"), pace)
    max_delay_s = rng.choice(pace.delays_s)
    max_delay_ms = 1000 * max_delay_s
    # Whether results are in time is known after max_delay, and what a busy machine may add.
    quiet_ms = max_delay_ms + QUIET_MS + diagram.bucket_us // MILLISECOND
    busy_ms = 1000 * rng.randint(*pace.lasts_s) + max_delay_ms
    lasts_ms = quiet_ms + (2000 * pace.takes_over_s if places.standby else busy_ms)
    rng_faults = chance.stream("faults")
    faults = _Faults(places, rng_faults, pace, quiet_ms, lasts_ms, max_delay_ms).drawn()
    return {
        "scenario": f"{name}_{seed}",
        "says": f"Every promise is kept whatever fails (drawn from seed {seed}).",
        "diagram": written,
        "replicas": {fragment: list(nodes) for fragment, nodes in places.replicas.items()},
        "sources": places.written,
        "reads": list(diagram.results),
        "max_delay": f"{max_delay_s} s",
        **_choices(chance.stream("choices"), diagram, pace),
        **_clocks(chance.stream("clocks"), places),
        "lasts": format_duration(lasts_ms * MILLISECOND),
        "faults": [_written(fault) for fault in faults],
        "expect": {
            "stable": "told" if lost_fragments(places.replicas, faults) else "equal",
            "corrected": "all",
            "within": f"{pace.within_s} s",
            **({"silence": f"{pace.takes_over_s} s"} if places.standby else {}),
        },
    }


def _choices(rng: Random, diagram: Diagram, pace: Pace) -> dict[str, Any]:
    """The choices of a deployment, in half of the rounds; the others keep the defaults."""
    written: dict[str, Any] = {}
    if rng.random() < 0.35:
        chained = _reads_replicas(diagram)
        policies = [one for one in POLICIES if one[0] != "hedged" or chained]
        written["policies"] = dict([rng.choice(policies)])
    never = written.get("policies") == {"up_failure": "suspend"}
    if rng.random() < 0.3 and not never:
        promise = {"max_delay": f"{rng.choice(pace.delays_s)} s"}
        never_one = {"tentative": "never"} if len(diagram.results) > 1 else promise
        promised = rng.choice([promise, promise, never_one])
        written["results"] = {rng.choice(diagram.results): promised}
    if rng.random() < 0.2:
        written["hedge"] = 2
    if rng.random() < 0.25:
        written["log"] = _bounds(rng, diagram)
    return written


def _bounds(rng: Random, diagram: Diagram) -> dict[str, Any]:
    """Logs that are full after some seconds in which nobody acknowledges anything."""
    most = rng.randint(5, 15) * SECOND // diagram.bucket_us
    # No fault makes anyone absent for so long that a full log would skip it.
    written = {"max": f"{most} buckets", "full": rng.choice(["wait", "skip"])}
    if rng.random() < 0.3:
        written["keep"] = f"{rng.randint(1, 3)} s"
    return written


def _clocks(rng: Random, places: _Places) -> dict[str, Any]:
    """In some rounds the clock of a node without sources is seconds off."""
    nodes = sorted({*places.computing} - {*places.sources.values()})
    if not nodes or rng.random() >= 0.3:
        return {}
    which, off_ms = rng.choice(["ahead", "behind"]), 100 * rng.randint(3, 50)
    return {"clocks": {rng.choice(nodes): {which: format_duration(off_ms * MILLISECOND)}}}


def _reads_replicas(diagram: Diagram) -> bool:
    """Whether a fragment reads from another one."""
    home = {plan.output: f.name for f in cut(diagram) for plan in f.plans}
    return any(
        home.get(stream, f.name) != f.name
        for f in cut(diagram)
        for plan in f.plans
        for stream in plan.inputs
    )


def _diagram(name: str, rng: Random, pace: Pace) -> dict[str, Any]:
    shape = SHAPES[name]
    source = {"generate": "connections", "rate": rng.choice([20, 40]), "seed": rng.randint(1, 99)}
    written: dict[str, Any] = {
        "diagram": name.replace("_", "-"),
        "bucket": f"{rng.choice(pace.buckets_ms)} ms",
        "sources": {f"site{i}": source | {"site": i} for i in range(2)},
        "operators": shape.operators,
    }
    if shape.fragments:
        written["fragments"] = shape.fragments
    if shape.outputs:
        written["outputs"] = list(shape.outputs)
    return written


@dataclass(frozen=True)
class _Places:
    """What runs where."""

    replicas: dict[str, tuple[str, ...]]
    sources: dict[str, str]
    standby: bool
    """Whether the first source has a standby at the second one's node."""
    rebuilt: frozenset[str]
    """The fragments whose states upstream logs rebuild if no replica has them."""

    @classmethod
    def drawn(cls, diagram: Diagram, rng: Random, pace: Pace) -> _Places:
        """Two or three replicas of each fragment, and sources that share a node or do not."""
        pool = "abcd"[: rng.randint(*pace.nodes)]
        replicas = {}
        for fragment in cut(diagram):
            count = 3 if len(pool) > 2 and rng.random() < 0.2 else 2
            replicas[fragment.name] = tuple(sorted(rng.sample(pool, count)))
        used = sorted({node for nodes in replicas.values() for node in nodes})
        homes = rng.choice([("e0", "e1"), ("e0", "e0"), (rng.choice(used), "e1")])
        sources = {s.name: home for s, home in zip(diagram.sources, homes, strict=True)}
        rebuilt = (f.name for f in cut(diagram) if reach(f, diagram) is not None)
        standby = homes == ("e0", "e1") and rng.random() < 0.2
        return cls(replicas, sources, standby, frozenset(rebuilt))

    @property
    def written(self) -> dict[str, Any]:
        """The sources as a scenario file has them."""
        if not self.standby:
            return self.sources
        first, second = self.sources
        pair = {"node": self.sources[first], "standby": self.sources[second]}
        return {**self.sources, first: pair}

    @property
    def computing(self) -> list[str]:
        """The nodes with a replica."""
        return sorted({node for nodes in self.replicas.values() for node in nodes})

    @property
    def nodes(self) -> list[str]:
        """All nodes."""
        return sorted({*self.computing, *self.sources.values()})

    @property
    def links(self) -> list[tuple[tuple[str, ...], str]]:
        """The links that carry something: nodes with a replica, and the other end."""
        pairs = [((node,), other) for node in self.computing for other in (*self.nodes, CLIENT)]
        whole = [
            (nodes, home) for nodes in self.replicas.values() for home in self.sources.values()
        ]
        return [(nodes, other) for nodes, other in [*pairs, *whole] if other not in nodes]


# --- faults -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Faults:
    """Draws faults that are over in time and do not interfere with each other."""

    places: _Places
    rng: Random
    pace: Pace
    quiet_ms: int
    """The time before the first fault, from which delays are known that the machine gives."""
    lasts_ms: int
    max_delay_ms: int

    def drawn(self) -> list[Fault]:
        """At least one fault, in the order in which they begin."""
        if self.places.standby:
            return self.lose_source()
        # Without starvation hardly any result would be tentative: it is drawn twice as often.
        kinds = [self.kill, self.pause, self.lose_disk, self.cut, self.flap, self.slow]
        kinds += [self.starve, self.starve, self.lose_all]
        chosen: list[Fault] = []
        left = self.rng.randint(*self.pace.faults)
        while left:
            together = [*chosen, *self.rng.choice(kinds)()]
            alone = not any(interfere(one, two) for one, two in combinations(together, 2))
            if alone and self._survives(together):
                chosen, left = together, left - 1
            elif chosen:
                left -= 1
        return sorted(chosen, key=lambda fault: fault.at_us)

    def _survives(self, faults: Sequence[Fault]) -> bool:
        """Whether all states are left or can be rebuilt, and no source loses its disk."""
        lost = {n for f in faults if f.kind is FaultKind.LOSE_DISK for n in f.nodes}
        for_ever = lost_fragments(self.places.replicas, faults) - self.places.rebuilt
        return not for_ever and not lost & {*self.places.sources.values()}

    def _span(self) -> tuple[int, int]:
        """When a fault begins, and how long it lasts; short ones are as likely as long ones."""
        return self._at(int(200 * (self.pace.longest_ms / 200) ** self.rng.random()))

    def _at(self, duration_ms: int) -> tuple[int, int]:
        at_ms = self.rng.randrange(self.quiet_ms, self.lasts_ms - duration_ms)
        return at_ms // 10 * 10 * MILLISECOND, duration_ms // 10 * 10 * MILLISECOND

    def kill(self) -> list[Fault]:
        """One node, a fragment's replicas at once, or every node: a full restart."""
        nodes: tuple[str, ...] = (self.rng.choice(self.places.nodes),)
        if self.rng.random() < 0.3:
            replicas = self.rng.choice([*self.places.replicas.values()])
            nodes = self.rng.choice([replicas, tuple(self.places.nodes)])
        return [Fault(FaultKind.KILL, nodes, *self._span())]

    def pause(self) -> list[Fault]:
        """One node."""
        return [Fault(FaultKind.PAUSE, (self.rng.choice(self.places.nodes),), *self._span())]

    def lose_disk(self) -> list[Fault]:
        """One node with replicas."""
        node = self.rng.choice(self.places.computing)
        return [Fault(FaultKind.LOSE_DISK, (node,), *self._span())]

    def lose_source(self) -> list[Fault]:
        """The node of a source with a standby, until the round is over."""
        node = next(iter(self.places.sources.values()))
        at_ms = self.quiet_ms // 10 * 10
        lasts_ms = (self.lasts_ms - at_ms) // 10 * 10
        return [Fault(FaultKind.KILL, (node,), at_ms * MILLISECOND, lasts_ms * MILLISECOND)]

    def lose_all(self) -> list[Fault]:
        """All nodes with replicas of a fragment."""
        nodes = self.rng.choice([*self.places.replicas.values()])
        return [Fault(FaultKind.LOSE_DISK, nodes, *self._span())]

    def cut(self) -> list[Fault]:
        """One link, or those of all replicas of a fragment to a source."""
        nodes, other = self.rng.choice(self.places.links)
        one_way = self.rng.random() < 0.25
        return [Fault(FaultKind.CUT, nodes, *self._span(), other, one_way)]

    def flap(self) -> list[Fault]:
        """A link that fails again and again."""
        nodes, other = self.rng.choice(self.places.links)
        first_ms = self.quiet_ms // 10 * 10 + 10 * self.rng.randint(50, 300)
        every_ms = 10 * self.rng.randint(80, 160)
        spans = [
            (first_ms + i * every_ms, 10 * self.rng.randint(20, 70))
            for i in range(self.rng.randint(3, 5))
        ]
        return [
            Fault(FaultKind.CUT, nodes, at * MILLISECOND, duration * MILLISECOND, other)
            for at, duration in spans
        ]

    def slow(self) -> list[Fault]:
        """One link, or those of all replicas of a fragment to a source."""
        links = [(nodes, other) for nodes, other in self.places.links if other != CLIENT]
        nodes, other = self.rng.choice(links)
        one_way, by_us = self.rng.random() < 0.25, 10 * self.rng.randint(5, 80) * MILLISECOND
        return [Fault(FaultKind.SLOW, nodes, *self._span(), other, one_way, by_us)]

    def starve(self) -> list[Fault]:
        """All replicas of a fragment lose a source for longer than results may wait."""
        nodes = self.rng.choice([*self.places.replicas.values()])
        homes = [home for home in self.places.sources.values() if home not in nodes]
        if not homes:
            return self.cut()
        span = self._at(self.max_delay_ms + 10 * self.rng.randint(50, 400))
        return [Fault(FaultKind.CUT, nodes, *span, self.rng.choice(homes))]


def _written(fault: Fault) -> dict[str, Any]:
    """A fault as a scenario file has it."""
    nodes = list(fault.nodes) if len(fault.nodes) > 1 else fault.nodes[0]
    written: dict[str, Any] = {fault.kind.value: nodes}
    if fault.other:
        written["from"] = fault.other
    if fault.by_us:
        written["by"] = format_duration(fault.by_us)
    if fault.one_way:
        written["one_way"] = True
    span = {"at": format_duration(fault.at_us), "for": format_duration(fault.lasts_us)}
    return written | span
