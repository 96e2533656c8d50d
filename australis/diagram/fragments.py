"""Cutting a diagram into fragments, and fragments into plans.

A *fragment* is a connected part of a diagram: the unit of placement. Where a
diagram is cut, the stream between two fragments is written to a stable log. A
*plan* is what computes one such stream: the operators on the way to it from the
nearest logged streams; each plan becomes one Structured Streaming query.

Some cuts are requested by the user (by hand, or at every fan-out). Others are needed by Spark: a
stateful operator needs an event time that Spark can follow, which a join, a count window or a union
of raw and windowed tuples no longer has; a logged stream has `_stime` and boundaries again.
"""

from __future__ import annotations

from dataclasses import dataclass

from australis.diagram.model import Diagram, Operator, Source
from australis.diagram.operators import EventTime


@dataclass(frozen=True)
class Plan:
    """The operators that compute one logged stream from other logged streams."""

    fragment: str
    output: str
    inputs: tuple[str, ...]
    operators: tuple[Operator, ...]

    @property
    def may_emit_on_watermark(self) -> bool:
        """Whether an output tuple may come out one micro-batch after its last input.

        The behaviour of a user's function is known once Spark has analysed it
        (`Lane.emits_on_watermark`).
        """
        return any(o.emits_on_watermark for o in self.operators)

    @property
    def reads_ids(self) -> bool:
        """Whether an operator depends on the order of tuples within one `_stime`."""
        return any(o.reads_ids for o in self.operators)


@dataclass(frozen=True)
class Fragment:
    """A connected part of the diagram with the plans of its output streams."""

    name: str
    operators: tuple[str, ...]
    plans: tuple[Plan, ...]


def cut(diagram: Diagram) -> tuple[Fragment, ...]:
    """The fragments of a diagram, upstream first."""
    logged = logged_streams(diagram)
    fragment_of = _components(diagram, logged)
    plans = [_plan(diagram, stream, logged, fragment_of) for stream in _in_order(diagram, logged)]
    return tuple(
        Fragment(
            name,
            tuple(o.name for o in diagram.in_order if fragment_of[o.name] == name),
            tuple(plan for plan in plans if plan.fragment == name),
        )
        for name in _upstream_first(plans)
    )


def _upstream_first(plans: list[Plan]) -> list[str]:
    """The fragments, each after those it reads from (unless these read from it as well)."""
    home = {plan.output: plan.fragment for plan in plans}
    reads: dict[str, set[str]] = {plan.fragment: set() for plan in plans}
    for plan in plans:
        reads[plan.fragment] |= {home[stream] for stream in plan.inputs if stream in home}

    def upstream(fragment: str) -> set[str]:
        found, todo = {fragment}, [fragment]
        while todo:
            new = reads[todo.pop()] - found
            found |= new
            todo += new
        return found

    # What lies upstream of a fragment has less upstream than the fragment itself.
    return sorted(reads, key=lambda fragment: len(upstream(fragment)))


def _in_order(diagram: Diagram, logged: set[str]) -> list[str]:
    return [s for o in diagram.in_order for s in o.outputs if s in logged]


def logged_streams(diagram: Diagram) -> set[str]:
    """Every stream with a log: sources, results, and wherever the diagram is cut."""
    logged = {s.name for s in diagram.sources} | set(diagram.results)
    if diagram.cut == "fan-out":
        logged |= {s for s, readers in diagram.consumers.items() if len(readers) > 1}
    elif not isinstance(diagram.cut, str):
        home = {operator: name for name, operators in diagram.cut for operator in operators}
        for operator in diagram.operators:
            for stream in operator.inputs:
                producer = diagram.producers[stream]
                if isinstance(producer, Operator) and home[producer.name] != home[operator.name]:
                    logged.add(stream)
    return logged | _needed_cuts(diagram, logged)


def _needed_cuts(diagram: Diagram, logged: set[str]) -> set[str]:
    """The cuts without which Spark could not run a query."""
    needed: set[str] = set()
    time: dict[str, EventTime] = {s.name: EventTime.LOGGED for s in diagram.sources}
    windows: dict[str, int] = {}  # count windows on the way to a stream within its query

    def fresh(stream: str) -> None:
        needed.add(stream)
        time[stream] = EventTime.LOGGED
        windows[stream] = 0

    for operator in diagram.in_order:
        for stream in operator.inputs:
            if time[stream] not in operator.accepts:
                fresh(stream)
        if sum(windows.get(s, 0) for s in operator.inputs) + operator.counts_tuples > 1:
            for stream in operator.inputs:
                if windows.get(stream, 0):
                    fresh(stream)
        result = operator.event_time([time[s] for s in operator.inputs])
        counted = sum(windows.get(s, 0) for s in operator.inputs) + operator.counts_tuples
        for stream in operator.outputs:
            time[stream] = EventTime.LOGGED if stream in logged else result
            windows[stream] = 0 if stream in logged else counted
    return needed


def _plan(diagram: Diagram, output: str, logged: set[str], fragment_of: dict[str, str]) -> Plan:
    needed: set[str] = set()
    inputs: dict[str, None] = {}

    def visit(stream: str, first: bool = False) -> None:
        producer = diagram.producers[stream]
        if isinstance(producer, Source) or (stream in logged and not first):
            inputs[stream] = None
            return
        if producer.name not in needed:
            needed.add(producer.name)
            for upstream in producer.inputs:
                visit(upstream)

    visit(output, first=True)
    producer = diagram.producers[output]
    operators = tuple(o for o in diagram.in_order if o.name in needed)
    return Plan(fragment_of[producer.name], output, tuple(inputs), operators)


def _components(diagram: Diagram, logged: set[str]) -> dict[str, str]:
    """The fragment of each operator: by hand, or connected between the cuts."""
    if not isinstance(diagram.cut, str):
        return {operator: name for name, operators in diagram.cut for operator in operators}
    group = {o.name: o.name for o in diagram.operators}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for operator in diagram.in_order:
        for stream in operator.inputs:
            producer = diagram.producers[stream]
            if isinstance(producer, Operator) and stream not in logged:
                group[root(producer.name)] = root(operator.name)
    # A fragment is named after its last operator.
    last = {root(operator.name): operator.name for operator in diagram.in_order}
    return {name: last[root(name)] for name in group}
