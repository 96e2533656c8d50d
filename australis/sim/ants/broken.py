"""Broken variants of cells, each with one wrong decision, which the checkers must catch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from australis.kernel.machine import Effect, Send
from australis.placement.queries import Query
from australis.placement.reuse import Tap
from australis.protocols.ants.cell import CellMachine
from australis.protocols.ants.leader import QueryLeader
from australis.protocols.ants.messages import (
    Enforced,
    Enforcement,
    Keep,
    Kept,
    Rank,
    ReleaseShares,
    Share,
)
from australis.protocols.ants.server_state import ServerState
from australis.sim.ants.schedule import AntsScenario
from australis.sim.harness.model import Variant


class KeepsForEver(CellMachine):
    """What runs goes on running when its leader is gone, and releases are lost."""

    def _fired(self, name: str, now: int) -> list[Effect]:
        if name == "tidy":
            return []
        return super()._fired(name, now)


class SaysYes(CellMachine):
    """A cell that has lost its share says that it is there."""

    def _keep(self, sender: str, message: Keep, now: int) -> list[Effect]:
        super()._keep(sender, message, now)
        return [Send(sender, Kept(message.query, message.version, True))]


class DoesNotRelease(CellMachine):
    """An old version goes on as long as it is allowed to, and it is always allowed to."""

    def _release(self, sender: str, message: ReleaseShares, now: int) -> list[Effect]:
        for key in self.ground.running():
            if key[0] == message.query:
                self.ground.keep(*key, now + (1 << 60))
        return []


class _Boundless(ServerState):
    def fits(self, query: Query, share: Share, beside: int | None = None) -> bool:
        return True

    def cost(self, query: Query, share: Share) -> float:
        return 0.0


class KnowsNoBound(CellMachine):
    """A cell takes whatever it is given."""

    ground_class = _Boundless


class RunsAtOnce(CellMachine):
    """A share runs as soon as it is held, whatever becomes of the others, and for ever."""

    def _enforce(self, sender: str, ant: Enforcement, now: int) -> list[Effect]:
        effects = super()._enforce(sender, ant, now)
        self.ground.keep(ant.query.name, ant.version, now + (1 << 60))
        return effects

    def _release(self, sender: str, message: ReleaseShares, now: int) -> list[Effect]:
        return []


class _Hasty(QueryLeader):
    def _ask_to_keep(self, plan, but=None):  # type: ignore[no-untyped-def]
        return super()._ask_to_keep(plan)[:1]

    def enforced(self, message: Enforced, now: int) -> list[Effect]:
        effects = super().enforced(message, now)
        if self._next is not None and self._next.holds:
            self._next.kept |= dict.fromkeys(self._next.cells[1:], 0.0)
        return effects


class TakesHalf(CellMachine):
    """A leader is content when the first cell keeps its share."""

    leading_class = _Hasty


class _TakesWhatSounds(ServerState):
    def offers(self, query: Query, rank: Rank) -> tuple[Tap, ...]:
        wanted = {task.does: task.name for task in query.tasks if task.does}
        return tuple(
            Tap(wanted[does], self.server.name, name, version, task, 0.0)
            for (name, version), part in self.running().items()
            if part.rank < rank and name != query.name
            for task in part.share.tasks
            if (does := part.query.task[task].does) in wanted
        )


class TakesWhatSoundsTheSame(CellMachine):
    """A cell offers a task that does what is wanted, whatever it does it with."""

    ground_class = _TakesWhatSounds


class _NeverMissesAny(ServerState):
    def _runs(self, tap: Tap) -> bool:
        return True

    def ends_soon(self, name: str, version: int, by_us: int) -> bool:
        return False


class TakesFromNobody(CellMachine):
    """A cell does not notice that what it takes from another query is gone."""

    ground_class = _NeverMissesAny


class _Forgetful(QueryLeader):
    def _to_fetch(self, plan):  # type: ignore[no-untyped-def]
        return {}


class Forgets(CellMachine):
    """A leader moves tasks and leaves behind what they remember."""

    leading_class = _Forgetful


def _variant(
    cell: type[CellMachine], caught_by: str, seeds: range = range(200)
) -> Variant[AntsScenario]:
    says = " ".join(str(cell.__doc__).split())
    apply = partial(replace, cell_class=cell)
    return Variant(cell.__name__, says, apply, (caught_by,), seeds)  # type: ignore[arg-type]


VARIANTS = {
    one.name: one
    for one in (
        _variant(KeepsForEver, "half"),
        _variant(SaysYes, "half"),
        _variant(DoesNotRelease, "half"),
        _variant(KnowsNoBound, "bound", range(99, 200)),
        _variant(RunsAtOnce, "half"),
        _variant(TakesHalf, "half"),
        _variant(TakesWhatSoundsTheSame, "results"),
        _variant(TakesFromNobody, "half", range(21, 200)),
        _variant(Forgets, "state"),
    )
}
