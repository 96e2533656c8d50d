"""The promises at the end of every control step, under any faults (`protocols.elasticity`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import isclose

from australis.elasticity.game import Game
from australis.elasticity.rounding import whole
from australis.elasticity.service import Feed
from australis.protocols.elasticity.events import TellSettled
from australis.sim.elasticity.expected import Choice, Part, central, parts, slowest_s
from australis.sim.elasticity.schedule import Schedule
from australis.sim.elasticity.watch import Notes, WatchedFloor, WatchedHost
from australis.sim.harness.model import Violation

EXACT = 1e-9
"""Numbers whose relative difference is at most this are equal."""
ZERO = 1e-12


def same(found: float | None, expected: float | None) -> bool:
    """Whether two numbers are equal up to rounding errors."""
    if found is None or expected is None:
        return found is expected
    return isclose(found, expected, rel_tol=EXACT, abs_tol=ZERO)


def _exactly(**numbers: int) -> dict[str, tuple[int, int]]:
    return {kind: (number, number) for kind, number in numbers.items()}


class Checks:
    """Checks each control step as soon as it is over."""

    def __init__(self, schedule: Schedule, floor: WatchedFloor) -> None:
        self._schedule = schedule
        self._options = schedule.options
        self._graph = schedule.game.graph
        self._floor = floor
        self.counts: Counter[str] = Counter()
        """How often each check applied."""
        self.agreed: set[int] = set()
        """The steps in which all agents had to choose the centralized optimum."""

    def look(self, step: int) -> Iterator[Violation]:
        """The violations of a control step that is over."""
        alone = [
            *(self._violation("neighbours", step, story) for story in self._floor.strangers),
            *(one for host in self._floor.watched.values() for one in self._alone(step, host)),
        ]
        yield from alone
        if not any(one.checker == "time" for one in alone):
            yield from self._all(step)

    def _alone(self, step: int, host: WatchedHost) -> Iterator[Violation]:
        notes = host.notes.get(step)
        yield from self._in_time(step, host, notes)
        if notes is not None and notes.told:
            self.counts["settled"] += 1
            yield from self._choice(host.name, notes, notes.told[0])
            yield from self._cores(host.name, notes, notes.told[0])

    def _all(self, step: int) -> Iterator[Violation]:
        yield from self._nodes(step)
        if self._undisturbed(step):
            if self._lossless(step) or self._schedule.patient:
                yield from self._together(step)
        elif self._steady(step) and self._lossless(step) and self._schedule.waits_for_the_gone:
            yield from self._apart(step)

    def _violation(self, checker: str, step: int, story: str) -> Violation:
        return Violation(checker, f"in step {step} {story}")

    # --- disturbances -----------------------------------------------------------------------------

    def _since_us(self, step: int) -> int:
        return step * self._options.step_us - self._schedule.lead_us

    def _unchanged(self, step: int) -> bool:
        """Whether the set of running agents and open links is unchanged since before the step
        began.
        """
        since_us = self._since_us(step)
        return all(host.touched_us < since_us for host in self._floor.watched.values()) and all(
            at_us < since_us for at_us in self._floor.cut_us.values()
        )

    def _undisturbed(self, step: int) -> bool:
        """Whether all agents were up all the time and could exchange messages, though perhaps with
        delay.
        """
        return (
            self._unchanged(step)
            and all(host.here for host in self._floor.watched.values())
            and not any(link.cuts for link in self._floor.links().values())
        )

    def _steady(self, step: int) -> bool:
        """Whether nothing changed, and no link is cut one way only."""
        links = self._floor.links()
        return self._unchanged(step) and all(
            bool(link.cuts) == bool(links[there, here].cuts)
            for (here, there), link in links.items()
        )

    def _lossless(self, step: int) -> bool:
        return not self._schedule.link.loss or self._since_us(step) >= self._schedule.heals_us

    def _game(self, step: int) -> Game:
        """The game as agents knew it at the beginning of a step, or as it was announced to those
        that were down.
        """
        modules = dict(self._schedule.game.modules)
        for name, host in self._floor.watched.items():
            if step in host.notes:
                modules[name] = host.notes[step].module
        return Game(self._graph, modules)

    def _told(self, step: int) -> dict[str, TellSettled]:
        return {
            name: host.notes[step].told[0]
            for name, host in self._floor.watched.items()
            if step in host.notes and host.notes[step].told
        }

    # --- one agent ----------------------------------------------------------------------------------

    def _in_time(self, step: int, host: WatchedHost, notes: Notes | None) -> Iterator[Violation]:
        """Every running agent begins a step by its clock, and ends it once and in time."""
        if notes is not None:
            if len(notes.told) > 1:
                yield self._violation("once", step, f"{host.name} ends {len(notes.told)} times")
            for told in notes.told:
                if told.step != step:
                    yield self._violation("once", step, f"{host.name} ends step {told.step}")
        if not host.here or host.touched_us >= self._since_us(step):
            return
        begin_us = host.clock.world(step * self._options.step_us)
        if notes is None or notes.begun_us != begin_us:
            yield self._violation("time", step, f"{host.name} does not begin in time")
        elif not notes.ended_us:
            yield self._violation("time", step, f"{host.name} does not end")
        elif notes.ended_us[0] > begin_us + self._options.deadline_us:
            late_s = (notes.ended_us[0] - begin_us - self._options.deadline_us) / 1e6
            yield self._violation("time", step, f"{host.name} ends {late_s:.6f} s late")
        else:
            gave_up = notes.ended_us[0] == begin_us + self._options.deadline_us
            self.counts["gave up"] += gave_up

    def _choice(self, name: str, notes: Notes, told: TellSettled) -> Iterator[Violation]:
        """An agent chooses the best response of its module to the pace and the incentive it
        reports.
        """
        module, ratio = notes.module, self._graph.ratios[name]
        best = module.best_response(told.pace_s / ratio, told.incentive)
        if not same(told.degree, best):
            story = f"{name} chooses {told.degree:.6g} cores, though {best:.6g} are best for it"
            yield self._violation("choice", told.step, story)
        alone_s = ratio * module.service.time_s(module.ideal_degree(told.incentive))
        if told.pace_s < alone_s * (1 - EXACT):
            story = f"{name} agrees to {told.pace_s:.6g} s, and needs {alone_s:.6g} s itself"
            yield self._violation("choice", told.step, story)
        if not 0 <= told.incentive <= module.core_price:
            story = f"{name} is paid {told.incentive:.6g} for a core of {module.core_price:.6g}"
            yield self._violation("choice", told.step, story)
        if not 1 <= told.round <= told.rounds <= self._options.rounds:
            story = f"{name} ends with round {told.round} of {told.rounds}"
            yield self._violation("choice", told.step, story)

    def _cores(self, name: str, notes: Notes, told: TellSettled) -> Iterator[Violation]:
        """A module gets whole cores for the chosen degree, up to its limit, or keeps its cores."""
        module = self._schedule.game.modules[name]
        least, most = (0, 0) if isinstance(module.service, Feed) else (1, module.most)
        if not least <= told.cores <= most:
            story = f"{name} has {told.cores} cores, not from {least} to {most}"
            yield self._violation("limits", told.step, story)
        wanted = whole(notes.module, told.degree, self._options.rounding)
        due_s = told.pace_s / self._graph.ratios[name]
        stays = wanted == notes.before or self._options.inertia.keeps(
            notes.module, notes.before, wanted, due_s
        )
        should = notes.before if stays else wanted
        if told.cores != should:
            story = f"{name} has {told.cores} cores, not {should} (before: {notes.before})"
            yield self._violation("cores", told.step, story)
        if notes.sets != ([] if stays else [wanted]):
            story = f"{name} sets {notes.sets} where {notes.before} cores should become {should}"
            yield self._violation("cores", told.step, story)

    # --- all agents -------------------------------------------------------------------------------

    def _nodes(self, step: int) -> Iterator[Violation]:
        """Modules that share a node and agree have at most the node's cores."""
        told = self._told(step)
        for node in self._schedule.nodes:
            there = [told[name] for name in node.modules if name in told]
            if len(there) == len(node.modules) and len({one.pace_s for one in there}) == 1:
                self.counts["nodes"] += 1
                cores = sum(one.cores for one in there)
                if cores > node.cores:
                    story = f"{cores} cores of {node.name} are used, which has {node.cores}"
                    yield self._violation("nodes", step, story)

    def _together(self, step: int) -> Iterator[Violation]:
        """Agents that can all exchange messages agree on the centralized optimum."""
        choice = central(self._game(step), self._options)
        yield from self._as_one(step, choice)
        if self._lossless(step) and self._schedule.quiet:
            yield from self._messages(step, choice)

    def _as_one(self, step: int, choice: Choice) -> Iterator[Violation]:
        self.agreed.add(step)
        told, game = self._told(step), self._game(step)
        for name in game.modules:
            story = self._differs(told[name], name, choice)
            if story:
                yield self._violation("agreed", step, f"{name} {story}")
        if not self._options.gossip:
            yield from self._no_worse(step, game, told, choice.first.cost)

    def _no_worse(
        self, step: int, game: Game, told: Mapping[str, TellSettled], first: float
    ) -> Iterator[Violation]:
        """The total cost with incentives never exceeds the cost without."""
        ratios = self._graph.ratios
        pay = sum(
            module.cost(told[name].degree, told[name].pace_s / ratios[name])
            for name, module in game.modules.items()
        )
        if pay > first * (1 + EXACT):
            story = f"all pay {pay:.6g}, and {first:.6g} without incentives"
            yield self._violation("cost", step, story)

    def _differs(self, told: TellSettled, name: str, choice: Choice) -> str | None:
        if told.round != choice.round:
            return f"ends with round {told.round}, not {choice.round}"
        if not self._options.gossip and told.rounds != choice.rounds:
            return f"begins {told.rounds} rounds, not {choice.rounds}"
        for what, found, expected in (
            ("a pace of", told.pace_s, choice.profile.pace_s),
            ("an incentive of", told.incentive, choice.incentives[name]),
            ("a number of cores of", told.degree, choice.profile.degrees[name]),
            ("a total cost of", told.cost, choice.costs[name]),
        ):
            if not same(found, expected):
                return f"settles on {what} {found}, not {expected}"
        return None

    def _messages(self, step: int, choice: Choice) -> Iterator[Violation]:
        """Without losses, the number of messages is the paper's (games 4.3, 5.2)."""
        self.counts["counted"] += 1
        sent = self._floor.sent[step]
        limits = self._limits(choice)
        for kind in sorted({*sent, *limits}):
            least, most = limits.get(kind, (0, 0))
            if not least <= sent[kind] <= most:
                number = f"{least}" if least == most else f"{least} to {most}"
                story = f"{sent[kind]} messages {kind} are sent, not {number}"
                yield self._violation("messages", step, story)

    def _limits(self, choice: Choice) -> Mapping[str, tuple[int, int]]:
        """The bounds on the number of messages of each kind."""
        graph, options, last = self._graph, self._options, choice.rounds
        everybody = 2 * len(graph.arcs)
        proposals = graph.diameter * everybody
        if options.rounds == 1:
            return _exactly(Proposal=proposals)
        if not options.gossip:
            along = last * (len(graph.modules) - 1)
            return _exactly(Proposal=last * proposals, Partial=along, Total=along)
        shares = options.gossip * everybody
        if last == options.rounds:
            return _exactly(Proposal=last * proposals, Share=(last - 1) * shares)
        # An agent that is told to stop may have been a little behind or ahead.
        return {
            "Proposal": ((last - 1) * proposals, (last + 1) * proposals),
            "Share": ((last - 1) * shares, last * shares),
            "Enough": (everybody - len(graph.modules) + 1, everybody),
        }

    # --- some agents down -------------------------------------------------------------------------

    def _apart(self, step: int) -> Iterator[Violation]:
        """Agents that can exchange messages agree on one pace and one round, whichever others are
        down.
        """
        open_ = {way for way, link in self._floor.links().items() if not link.cuts}
        here = [name for name, host in self._floor.watched.items() if host.here]
        for part in parts(self._graph, here, open_):
            if part.diameter > self._graph.diameter:
                continue  # There are too few exchanges to reach all agents.
            self.counts["apart"] += 1
            if self._adds_up(part, open_):
                yield from self._as_one(step, central(self._game(step), self._options))
            else:
                yield from self._part(step, part)

    def _adds_up(self, part: Part, open_: Collection[tuple[str, str]]) -> bool:
        """Whether all agents are up, and the tree along which they add up is whole."""
        seats = self._floor.seats.values()
        tree = all(seat.parent is None or (seat.name, seat.parent) in open_ for seat in seats)
        return len(part.names) == len(seats) and tree and not self._options.gossip

    def _part(self, step: int, part: Part) -> Iterator[Violation]:
        """Without a whole tree nothing can be added up, so the first round stands."""
        told = self._told(step)
        found = {(told[name].pace_s, told[name].round) for name in part.names}
        if len(found) > 1:
            each = ", ".join(
                f"{name} has {told[name].pace_s:.6g} s of round {told[name].round}"
                for name in part.names
            )
            story = f"{each}, though they can hear each other"
            yield self._violation("apart", step, story)
            return
        ((pace_s, round_),) = found
        slowest = slowest_s(self._game(step), part.names)
        by_push_sum = self._options.gossip and self._options.rounds > 1
        if not by_push_sum and (round_ != 1 or not same(pace_s, slowest)):
            names = ", ".join(part.names)
            story = (
                f"{names} have {pace_s:.6g} s of round {round_}, not {slowest:.6g} s of the first"
            )
            yield self._violation("apart", step, story)
