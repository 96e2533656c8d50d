"""Formats what was drawn from a seed, what failed when, and what agents agreed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from australis.elasticity.cost import Module
from australis.elasticity.service import Feed, Paced
from australis.kernel.durations import MILLISECOND, SECOND
from australis.sim.elasticity.run import Run
from australis.sim.elasticity.schedule import Schedule
from australis.sim.elasticity.watch import Notes
from australis.sim.harness.story import Line


def took(us: int) -> str:
    """A duration, rounded for reading.

    >>> took(1_234_567), took(20_500), took(750)
    ('1.23 s', '20.5 ms', '0.75 ms')
    """
    if us >= SECOND:
        return f"{us / SECOND:.2f} s" if us < 100 * SECOND else f"{us / SECOND:.0f} s"
    return f"{us / MILLISECOND:g} ms" if us < MILLISECOND else f"{us / MILLISECOND:.3g} ms"


# --- the drawn scenario ---------------------------------------------------------------------------


def modules_of(schedule: Schedule) -> dict[str, str]:
    """Describes each module and the modules to which it passes tasks."""
    graph = schedule.game.graph
    found = {}
    for name, module in schedule.game.modules.items():
        onward = ", ".join(graph.onward[name])
        found[name] = f"{_module(module)}{f'; to {onward}' if onward else ''}"
    for node in schedule.nodes:
        found[node.name] = f"has {node.cores} cores, shared by {', '.join(node.modules)}"
    return found


def _module(module: Module) -> str:
    service, often = module.service, ""
    if isinstance(service, Feed):
        return f"joins several sources, a task every {service.every_s:.3g} s"
    if isinstance(service, Paced):
        often = f", one every {service.every_s:.3g} s at most"
        service = service.service
    return (
        f"{service.running_s:.3g} s a task on one core ({type(service).__name__}){often};"
        f" {module.delay_price:.3g} a second, {module.core_price:.3g} a core, up to {module.most}"
    )


def settings_of(schedule: Schedule) -> dict[str, str]:
    """Describes how agents play and how their messages travel."""
    options, inertia = schedule.options, schedule.options.inertia
    played = "one round, each module for itself"
    if options.rounds > 1:
        way = f"{options.gossip} exchanges of push-sum" if options.gossip else "a tree"
        played = (
            f"up to {options.rounds} rounds, add up what they pay by {way} and raise incentives by"
            f" {options.increment:g} of the price of a core"
        )
    stays = ""
    if inertia.cost or inertia.slack:
        stays = f"; a change costs {inertia.cost:.3g}, {inertia.slack:.0%} slower is fast enough"
    times = (
        f"the newest measurement counts {options.newest:g}; a step is {took(options.step_us)},"
        f" its deadline {took(options.deadline_us)}; what does not come in"
        f" {took(options.resend_us)} is asked for, {options.tries} times"
    )
    return {
        "agents": f"play {played}; cores are rounded {_rounded(schedule)}{stays}",
        "times": times,
        "network": _network(schedule),
    }


def _network(schedule: Schedule) -> str:
    link, skew_us = schedule.link, schedule.skew_us
    order = "" if link.in_order else ", in any order"
    lost = f"{link.loss:.0%} are lost" if link.loss else "none is lost"
    twice = f"{link.duplicate:.0%} come twice" if link.duplicate else "none comes twice"
    clocks = f"clocks differ by up to {took(skew_us)}" if skew_us else "clocks agree"
    takes = f"{took(link.latency_us)} to {took(link.latency_us + link.jitter_us)}"
    return f"messages take {takes}{order}; {lost}, {twice}; {clocks}"


def _rounded(schedule: Schedule) -> str:
    return {"up": "up", "nearest": "to the nearest number"}[schedule.options.rounding.value]


# --- results --------------------------------------------------------------------------------------


def steps_of(run: Run) -> Iterator[Line]:
    """Describes the outcome that agents agreed on, step by step."""
    schedule, step_us = run.schedule, run.schedule.options.step_us
    for step in range(1, run.done + 1):
        calm = ": nothing fails any more" if step == schedule.faulty + 1 else ""
        yield Line(step * step_us, f"step {step}", f"begins{calm}")
        over_us = schedule.over_us(step)
        yield from (Line(over_us, f"step {step}", line) for line in _outcome(run, step))


def _outcome(run: Run, step: int) -> Iterator[str]:
    notes = {
        name: host.notes[step]
        for name, host in run.floor.watched.items()
        if step in host.notes and host.notes[step].told
    }
    load = run.floor.watched[run.schedule.game.graph.source].notes.get(step)
    if load is not None and isinstance(load.module.service, Feed | Paced):
        yield f"tasks are expected every {load.module.service.every_s:.3g} s"
    yield _settled(run, step, notes)
    changes = [
        f"{name} {one.before} -> {one.sets[-1]}"
        for name, one in notes.items()
        if one.sets and one.sets[-1] != one.before
    ]
    sent = run.floor.sent[step]
    asked = f", {sent['Request']:,} of them questions" if sent["Request"] else ""
    cores = f"cores: {', '.join(changes)}" if changes else "no cores change"
    yield f"{cores}; {sum(sent.values()):,} messages{asked}"


def _settled(run: Run, step: int, notes: dict[str, Notes]) -> str:
    found: dict[tuple[float, int], list[str]] = defaultdict(list)
    for name, one in notes.items():
        found[one.told[0].pace_s, one.told[0].round].append(name)
    missing = [name for name in run.floor.watched if name not in notes]
    if len(found) == 1 and not missing:
        ((pace_s, round_),) = found
        known = ", the centralized optimum" if step in run.checks.agreed else ""
        rounds = max(one.told[0].rounds for one in notes.values())
        return f"all settle on a task every {pace_s:.4g} s (round {round_} of {rounds}){known}"
    each = [
        f"{', '.join(names)} on {pace_s:.4g} s (round {round_})"
        for (pace_s, round_), names in found.items()
    ]
    each += [f"{', '.join(missing)} on nothing"] if missing else []
    return "settled: " + "; ".join(each)
