"""What was drawn from a seed, what failed when, and what agents settled on, in plain words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from australis.elasticity.cost import Module
from australis.elasticity.service import Feed, Paced
from australis.kernel.durations import MILLISECOND, SECOND
from australis.sim.elasticity.run import Run
from australis.sim.elasticity.schedule import Fault, Kind, Schedule
from australis.sim.elasticity.watch import Notes


def tell(run: Run) -> list[str]:
    """The story of a run that is over."""
    return [*_drawn(run.schedule), *_steps(run)]


def took(us: int) -> str:
    """A duration, as exact as one wants to read it.

    >>> took(1_234_567), took(20_500), took(750)
    ('1.23 s', '20.5 ms', '0.75 ms')
    """
    if us >= SECOND:
        return f"{us / SECOND:.2f} s" if us < 100 * SECOND else f"{us / SECOND:.0f} s"
    return f"{us / MILLISECOND:g} ms" if us < MILLISECOND else f"{us / MILLISECOND:.3g} ms"


# --- what was drawn ---------------------------------------------------------------------------------


def _drawn(schedule: Schedule) -> Iterator[str]:
    graph = schedule.game.graph
    yield (
        f"{len(graph.modules)} modules behind {graph.source}, {len(graph.arcs)} arcs, no two more"
        f" than {graph.diameter} apart"
    )
    for name, module in schedule.game.modules.items():
        onward = ", ".join(graph.onward[name])
        yield f"  {name:12} {_module(module)}{f'; to {onward}' if onward else ''}"
    for node in schedule.nodes:
        yield f"  {', '.join(node.modules)} share the {node.cores} cores of {node.name}"
    yield from _settings(schedule)


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


def _settings(schedule: Schedule) -> Iterator[str]:
    options, inertia = schedule.options, schedule.options.inertia
    played = "one round, everybody for itself"
    if options.rounds > 1:
        way = f"{options.gossip} exchanges of push-sum" if options.gossip else "a tree"
        played = (
            f"up to {options.rounds} rounds, add up what they pay by {way} and raise incentives by"
            f" {options.increment:g} of the price of a core"
        )
    stays = ""
    if inertia.cost or inertia.slack:
        stays = f"; a change costs {inertia.cost:.3g}, {inertia.slack:.0%} slower is fast enough"
    yield f"agents play {played}; cores are rounded {_rounded(schedule)}{stays}"
    yield (
        f"the newest measurement counts {options.newest:g}; a step is {took(options.step_us)},"
        f" its deadline {took(options.deadline_us)}; what does not come in"
        f" {took(options.resend_us)} is asked for, {options.tries} times"
    )
    yield _network(schedule)


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


# --- what came of it --------------------------------------------------------------------------------


def _steps(run: Run) -> Iterator[str]:
    schedule, step_us = run.schedule, run.schedule.options.step_us
    for step in range(1, run.done + 1):
        calm = ": nothing fails any more" if step == schedule.faulty + 1 else ""
        yield f"step {step}, from {took(step * step_us)}{calm}"
        for fault in schedule.faults:
            if _when(fault, schedule) == step:
                yield f"    {_fault(fault, step * step_us)}"
        yield from (f"    {line}" for line in _outcome(run, step))


def _when(fault: Fault, schedule: Schedule) -> int:
    """The step in whose part of the story a fault belongs."""
    return max(1, (fault.at_us + schedule.lead_us + MILLISECOND) // schedule.options.step_us)


def _fault(fault: Fault, begin_us: int) -> str:
    who = fault.here
    if fault.there is not None:
        who = f"{fault.here} {'->' if fault.one_way else '-'} {fault.there}"
    what = fault.kind.value
    if fault.kind is Kind.SLOW:
        what = f"{what} by {took(fault.extra_us)}"
    side = "before it" if fault.at_us < begin_us else "in it"
    when = f"{took(abs(fault.at_us - begin_us))} {side}"
    return f"{who} {what} {when}, for {took(fault.until_us - fault.at_us)}"


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
        known = ", as one would who knows everything" if step in run.checks.agreed else ""
        rounds = max(one.told[0].rounds for one in notes.values())
        return f"all settle on a task every {pace_s:.4g} s (round {round_} of {rounds}){known}"
    each = [
        f"{', '.join(names)} on {pace_s:.4g} s (round {round_})"
        for (pace_s, round_), names in found.items()
    ]
    each += [f"{', '.join(missing)} on nothing"] if missing else []
    return "settled: " + "; ".join(each)
