"""Leaders: at a producer of a query, one sees to it that the query is placed and stays placed well.

It has the chains sought one after the other, lets an enforcement ant have every cell work out again
what its share costs and hold it, and has them kept when all hold: until then nothing runs, and what
is held goes by itself. What runs goes by itself too when its leader is no longer heard of.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from australis.kernel.machine import Effect, Send, SetTimer
from australis.placement.queries import Query
from australis.protocols.ants.chains import Chain, chains
from australis.protocols.ants.events import AntOptions, TellPlaced, TellUnplaced
from australis.protocols.ants.messages import (
    Enforced,
    Enforcement,
    Goal,
    Keep,
    Kept,
    Release,
    Report,
    Share,
    Sought,
)

Routes = dict[tuple[str, str], tuple[str, ...]]
Seeks = Callable[[Goal, str, str, int], list[Effect]]
"""Have a chain sought: the goal, where it begins and ends, and now."""
SEEK_ROUNDS = 3
"""A search that is not answered takes so many times a search's patience and tries before it is lost."""

LONGEST_PAUSE = 16
"""As long as nothing better is found it is looked for ever more seldom, up to so many times the time
that is set,"""
CHANGED = 0.1
"""unless what there is costs more or less by this part."""


def timer(query: str) -> str:
    """The name of a leader's timer."""
    return f"lead {query}"


@dataclass
class _Plan:
    """A placement that is being made, or that runs."""

    version: int
    hosts: dict[str, str] = field(default_factory=dict)
    routes: Routes = field(default_factory=dict)
    expected: float = 0.0
    chain: int = 0
    """The chain that is sought,"""
    until_us: int = 0
    """for so long,"""
    asked_us: int = 0
    """and when that was asked for last."""
    shares: tuple[Share, ...] = ()
    kept: dict[str, float] = field(default_factory=dict)
    """The cells that said so, and what their shares cost."""
    enforced_us: int | None = None
    """When its enforcement ant left."""
    holds: bool = False
    """Whether all cells hold their shares."""
    heard_us: dict[str, int] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(share.cell for share in self.shares)


class Leading:
    """The leader of one query."""

    def __init__(
        self, query: Query, name: str, first: int, options: AntOptions, seek: Seeks
    ) -> None:
        self.query = query
        self._name = name
        self._options = options
        self._seek = seek
        self._chains = chains(query)
        self._versions = first
        self._runs: _Plan | None = None
        self._next: _Plan | None = None
        self._again_us = 0
        self._soonest_us = 0
        self._pause_us = options.again_us
        self._searched_at_cost = 0.0
        self._settled_us = 0
        self._settle_us = options.settle_us
        self._was: dict[str, str] = {}
        """Where it ran before it was moved last."""
        self._renewed_us = 0

    # --- life ---------------------------------------------------------------------------------

    def start(self, now: int) -> list[Effect]:
        """Begin to place it."""
        return [*self._begin(now), SetTimer(timer(self.query.name), now + self._options.resend_us)]

    def end(self) -> list[Effect]:
        """It is not wanted any longer."""
        effects: list[Effect] = []
        for plan in (self._runs, self._next):
            if plan is not None:
                effects += self._let_go(plan)
        self._runs = self._next = None
        return effects

    def tick(self, now: int) -> list[Effect]:
        """See after everything."""
        effects: list[Effect] = [SetTimer(timer(self.query.name), now + self._options.resend_us)]
        if self._runs is not None:
            effects += self._look_after(self._runs, now)
        if self._next is not None:
            effects += self._press_on(self._next, now)
        elif self._is_due(now):
            effects += self._begin(now)
        return effects

    def _is_due(self, now: int) -> bool:
        """Whether it is time to look for a placement, or for a better one."""
        if self._runs is None:
            return now >= self._again_us
        if now < self._settled_us:
            return False
        return now >= self._again_us or (now >= self._soonest_us and self._changed())

    def _changed(self) -> bool:
        """Whether what runs costs more or less than when something better was looked for last."""
        if self._runs is None or not self._searched_at_cost:
            return False
        now_costs = sum(self._runs.kept.values())
        return abs(now_costs / self._searched_at_cost - 1) > CHANGED

    def measured(self, query: Query) -> None:
        """What the query does has changed; its tasks are the same."""
        if [task.name for task in query.tasks] == [task.name for task in self.query.tasks]:
            self.query, self._chains = query, chains(query)

    # --- looking for a placement ----------------------------------------------------------------

    def _begin(self, now: int) -> list[Effect]:
        self._versions += 1
        self._again_us = now + self._pause_us
        self._soonest_us = now + self._options.again_us
        self._searched_at_cost = sum(self._runs.kept.values()) if self._runs is not None else 0.0
        self._next = _Plan(self._versions)
        return self._seek_chain(self._next, now)

    def _seek_chain(self, plan: _Plan, now: int) -> list[Effect]:
        options = self._options
        plan.until_us = now + SEEK_ROUNDS * options.patience_us * options.tries
        return self._ask_for_chain(plan, now)

    def _ask_for_chain(self, plan: _Plan, now: int) -> list[Effect]:
        plan.asked_us = now
        chain = self._chains[plan.chain]
        source = plan.hosts.get(chain.source) or self.query.pinned[chain.source]
        target = plan.hosts.get(chain.target) or self.query.pinned[chain.target]
        again = self._runs is not None
        goal = Goal(self.query, plan.version, plan.chain, dict(plan.hosts), again)
        return self._seek(goal, source, target, now)

    def sought(self, message: Sought, now: int) -> list[Effect]:
        """What the ants have found for a chain."""
        plan = self._next
        if plan is None or (plan.version, plan.chain) != (message.version, message.chain):
            return []
        if message.report is None:
            return self._give_up(f"no servers were found for {self._tasks(plan)}", now)
        self._take(plan, self._chains[plan.chain], message.report)
        plan.chain += 1
        if plan.chain < len(self._chains):
            return self._seek_chain(plan, now)
        plan.shares = shares(plan.hosts, plan.routes)
        if self._runs is not None and not self._better(plan, self._runs):
            self._next = None
            self._pause_us = min(2 * self._pause_us, LONGEST_PAUSE * self._options.again_us)
            self._again_us = now + self._pause_us
            return []
        self._pause_us = self._options.again_us
        return self._enforce(plan, now)

    def _take(self, plan: _Plan, chain: Chain, report: Report) -> None:
        plan.hosts |= report.hosts
        ends = (chain.source, *chain.tasks, chain.target)
        for here, there in itertools.pairwise(ends):
            if there in report.routes:
                plan.routes[here, there] = report.routes[there]
        plan.expected += report.cost

    def _better(self, plan: _Plan, runs: _Plan) -> bool:
        """Whether a placement is so much better than the one that runs that it is worth a move."""
        if len(runs.kept) < len(runs.shares):
            return False
        costs_s = sum(runs.kept.values())
        return costs_s >= self._options.beta * plan.expected and plan.hosts != runs.hosts

    def _tasks(self, plan: _Plan) -> str:
        return ", ".join(self._chains[plan.chain].tasks)

    def _give_up(self, why: str, now: int) -> list[Effect]:
        """Not this time."""
        effects: list[Effect] = []
        if self._next is not None:
            effects = self._let_go(self._next)
        self._next = None
        if self._runs is None:
            self._again_us = now + self._options.patience_us
            effects.append(TellUnplaced(self.query.name, why))
        return effects

    # --- placing it -------------------------------------------------------------------------------

    def _enforce(self, plan: _Plan, now: int) -> list[Effect]:
        plan.enforced_us = now
        plan.until_us = now + self._options.hold_us // 2
        most = plan.expected * (1 + self._options.tolerance)
        if self._runs is not None:  # it must still be worth a move
            most = min(most, sum(self._runs.kept.values()) / self._options.beta)
        ant = Enforcement(self.query, plan.version, self._name, plan.shares, 0, 0.0, most)
        return [Send(plan.shares[0].cell, ant)]

    def enforced(self, message: Enforced, now: int) -> list[Effect]:
        """The enforcement ant is back."""
        plan = self._next
        if plan is None or plan.version != message.version or plan.holds:
            return []
        if message.refused_by:
            return self._give_up(f"{message.refused_by} would not have its share", now)
        plan.holds = True
        return self._ask_to_keep(plan)

    def _ask_to_keep(self, plan: _Plan, but: Mapping[str, float] | None = None) -> list[Effect]:
        keep = Keep(self.query.name, plan.version)
        return [Send(cell, keep) for cell in plan.cells if cell not in (but or {})]

    def _press_on(self, plan: _Plan, now: int) -> list[Effect]:
        """Something may have been lost on the way."""
        if now > plan.until_us:
            return self._give_up("cells did not answer", now)
        if plan.holds:
            return self._ask_to_keep(plan, plan.kept)
        if plan.enforced_us is not None:
            until, effects = plan.until_us, self._enforce(plan, plan.enforced_us)
            plan.until_us = until
            return effects
        if now - plan.asked_us > 2 * self._options.patience_us:
            return self._ask_for_chain(plan, now)
        return []

    def kept(self, sender: str, message: Kept, now: int) -> list[Effect]:
        """A cell says whether it has its share."""
        if self._runs is not None and message.version == self._runs.version:
            if not message.there:
                return self._broken(sender, now)
            self._runs.kept[sender] = message.cost
            self._runs.heard_us[sender] = now
            return []
        plan = self._next
        if plan is None or message.version != plan.version:
            return []
        if not message.there:
            return self._give_up(f"{sender} has lost its share", now)
        plan.kept[sender] = message.cost
        plan.heard_us[sender] = now
        return self._run(plan, now) if len(plan.kept) == len(plan.shares) else []

    def _run(self, plan: _Plan, now: int) -> list[Effect]:
        """All cells have their shares: it runs there from now on, and no longer elsewhere."""
        effects: list[Effect] = []
        if self._runs is not None:
            effects = self._let_go(self._runs)
            back = plan.hosts == self._was
            self._settle_us = 2 * self._settle_us if back else self._options.settle_us
            self._was = self._runs.hosts
        self._runs, self._next = plan, None
        self._settled_us = now + self._settle_us
        self._renewed_us = now
        cost = sum(plan.kept.values())
        placed = TellPlaced(self.query.name, plan.version, plan.hosts, plan.routes, cost)
        return [*effects, placed]

    # --- seeing after it ------------------------------------------------------------------------

    def _look_after(self, plan: _Plan, now: int) -> list[Effect]:
        lease = self._options.lease_us
        silent = [cell for cell, heard in plan.heard_us.items() if now - heard > lease]
        if silent:
            return self._broken(silent[0], now)
        if now - self._renewed_us >= lease // 4:
            self._renewed_us = now
        heard = {cell: 0.0 for cell, at in plan.heard_us.items() if at >= self._renewed_us}
        return self._ask_to_keep(plan, but=heard)

    def _broken(self, cell: str, now: int) -> list[Effect]:
        """A cell has lost its share: the rest of the placement is of no use."""
        assert self._runs is not None
        effects = self._let_go(self._runs)
        self._runs = None
        self._again_us = now
        effects.append(TellUnplaced(self.query.name, f"{cell} has lost its share"))
        return effects

    def _let_go(self, plan: _Plan) -> list[Effect]:
        release = Release(self.query.name, plan.version)
        return [Send(cell, release) for cell in plan.cells]

    @property
    def running(self) -> tuple[int, tuple[Share, ...]] | None:
        """The version that runs, and the shares of it."""
        return None if self._runs is None else (self._runs.version, self._runs.shares)


def shares(hosts: Mapping[str, str], routes: Routes) -> tuple[Share, ...]:
    """What each cell has of a placement.

    >>> shares({"f": "b"}, {("p", "f"): ("a", "b"), ("f", "c"): ("b",)})
    (Share(cell='a', tasks=(), sends=(('b', 'p', 'f'),)), Share(cell='b', tasks=('f',), sends=()))
    """
    tasks: dict[str, list[str]] = {}
    sends: dict[str, list[tuple[str, str, str]]] = {}
    for (source, target), route in routes.items():
        for here, there in itertools.pairwise(route):
            sends.setdefault(here, []).append((there, source, target))
    for task, host in hosts.items():
        tasks.setdefault(host, []).append(task)
    cells = dict.fromkeys([*sends, *tasks])
    return tuple(
        Share(cell, tuple(tasks.get(cell, ())), tuple(sends.get(cell, ()))) for cell in cells
    )
