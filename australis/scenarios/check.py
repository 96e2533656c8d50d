"""Finds the mistakes in a scenario: what cannot run, or would differ between the two worlds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from australis.deployment.check import check as check_cluster
from australis.diagram.fragments import Fragment, cut
from australis.diagram.model import Diagram
from australis.kernel.durations import format_duration
from australis.kernel.errors import UserError
from australis.kernel.names import known_names
from australis.protocols.dpc.topology import dpc_options, span_buckets
from australis.runtime.sources import check_options
from australis.scenarios.model import CLIENT, Fault, FaultKind, Scenario

_SET_BY_THE_RUN = ("start", "speed", "duration")


def check(scenario: Scenario) -> None:
    """Raise a `UserError` for the first mistake."""
    check_cluster(scenario.cluster, scenario.diagram)
    dpc_options(scenario.cluster, scenario.diagram)
    _sources(scenario)
    _clocks(scenario)
    for fault in scenario.faults:
        _fault(scenario, fault)
    for one, two in combinations(scenario.faults, 2):
        _together(one, two)
    _disks(scenario)


def _wrong(fault: Fault, sentence: str) -> UserError:
    return UserError(sentence, name=fault.kind.value, place=fault.place)


def _sources(scenario: Scenario) -> None:
    """Check that all sources are generators, so that both worlds have equal rows."""
    for source in scenario.diagram.sources:
        if source.kind != "generate":
            raise UserError(
                f"is a source of the kind '{source.kind}': the rows of a scenario are generated"
                " ('generate: connections')",
                name=source.name,
                place=source.place,
            )
        for option in _SET_BY_THE_RUN:
            if option in source.options:
                sentence = f"has the option '{option}', which the run of a scenario sets itself"
                raise UserError(sentence, name=source.name, place=source.place)
        check_options(source)


def _clocks(scenario: Scenario) -> None:
    """Check that clocks are those of nodes without sources, whose rows would begin at other times."""
    nodes = set(scenario.cluster.nodes) - set(scenario.cluster.sources.values())
    for node in scenario.clocks:
        if node not in nodes:
            raise UserError(
                f"is not a node whose clock may be off ({known_names(node, sorted(nodes))}): those"
                " of sources tell when their rows begin",
                name=node,
                place=scenario.cluster.places.get("clocks", scenario.cluster.place),
            )


def _fault(scenario: Scenario, fault: Fault) -> None:
    _nodes(scenario, fault)
    if fault.kind is FaultKind.LOSE_DISK:
        for source, node in scenario.cluster.sources.items():
            if node in fault.nodes and source not in scenario.cluster.standbys:
                raise _wrong(
                    fault,
                    f"hits '{node}', where the source '{source}' is: no other node has its log"
                    " (kill or pause it, or cut it off)",
                )
    if fault.until_us > scenario.lasts_us:
        raise _wrong(
            fault,
            f"is over after {format_duration(fault.until_us)}, when the scenario is"
            f" ('lasts: {format_duration(scenario.lasts_us)}')",
        )


def _nodes(scenario: Scenario, fault: Fault) -> None:
    """Check that every node named by a fault exists, and is named once."""
    nodes = list(scenario.cluster.nodes)
    ends = [(node, nodes) for node in fault.nodes]
    if fault.kind.of_links:
        ends.append((fault.other, [*nodes, CLIENT]))
    for name, known in ends:
        if name not in known:
            raise _wrong(fault, f"names an unknown node '{name}' ({known_names(name, known)})")
    if fault.kind is FaultKind.SLOW and fault.other == CLIENT:
        raise _wrong(fault, f"names '{CLIENT}', whose links can be cut but not slowed")
    named = [name for name, _ in ends]
    for name in named:
        if named.count(name) > 1:
            raise _wrong(fault, f"names '{name}' twice")


def _together(one: Fault, two: Fault) -> None:
    """Check that two faults do not interfere."""
    if shared := interfere(one, two):
        what = sorted(shared, key=str)[0]
        named = what if isinstance(what, str) else " and ".join(sorted(what))
        line = f" of line {one.place.line}" if one.place is not None else ""
        raise _wrong(two, f"touches {named} while the '{one.kind.value}'{line} still does")


def interfere(one: Fault, two: Fault) -> set[frozenset[str]] | set[str]:
    """The links or nodes that both faults touch at the same time.

    A node that is down or paused cannot be told that a fault of its links begins or ends.
    """
    if one.until_us <= two.at_us or two.until_us <= one.at_us:
        return set()
    if one.kind.of_links and two.kind.of_links:
        return set(_pairs(one)) & set(_pairs(two))
    return _touched(one) & _touched(two)


def _pairs(fault: Fault) -> Iterator[frozenset[str]]:
    return (frozenset((node, fault.other)) for node in fault.nodes)


def _touched(fault: Fault) -> set[str]:
    return {*fault.nodes, fault.other} - {""}


def _disks(scenario: Scenario) -> None:
    """Check that no lost disk holds the last copy of a state that cannot be rebuilt."""
    for_ever = {f.name for f in cut(scenario.diagram) if reach(f, scenario.diagram) is None}
    for number, fault in enumerate(scenario.faults, 1):
        lost = lost_fragments(scenario.cluster.replicas, scenario.faults[:number])
        for fragment in sorted(lost & for_ever):
            sentence = (
                f"leaves no replica of '{fragment}' that never lost its disk, and its state may"
                " rest on everything"
            )
            raise _wrong(fault, sentence)


def reach(fragment: Fragment, diagram: Diagram) -> int | None:
    """How many buckets back the states of a fragment reach; None if there is no limit."""
    spans = [span_buckets(plan, diagram.bucket_us) for plan in fragment.plans]
    return None if None in spans else sum(span or 0 for span in spans)


def lost_fragments(replicas: Mapping[str, Sequence[str]], faults: Iterable[Fault]) -> set[str]:
    """The fragments whose replicas all lose their disks."""
    wiped = {n for fault in faults if fault.kind is FaultKind.LOSE_DISK for n in fault.nodes}
    return {fragment for fragment, nodes in replicas.items() if wiped.issuperset(nodes)}
