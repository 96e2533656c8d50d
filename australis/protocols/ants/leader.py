"""Leaders: at a producer of a query, its leader finds a placement and keeps it good.

The leader has the chains sought one after the other, and then once more with the tasks of other
queries that scouts have found reusable; the cheaper of the two placements is taken. Its enforcement
ant has every cell recompute and hold its share; once all hold, the leader confirms them: until then
nothing runs, and held shares expire. A running share expires too when its leader falls silent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from australis.kernel.machine import Effect, Send, SetTimer
from australis.placement.queries import Query
from australis.placement.reuse import Tap, reduced, used
from australis.protocols.ants.chains import Chain, chains, pulls
from australis.protocols.ants.events import AntOptions, TellPlaced, TellUnplaced
from australis.protocols.ants.messages import (
    Enforced,
    Enforcement,
    Fetch,
    Fetched,
    Goal,
    Keep,
    Kept,
    ReleaseShares,
    Report,
    Share,
    Sought,
)

Routes = dict[tuple[str, str], tuple[str, ...]]
Seeks = Callable[[Goal, str, str, int], list[Effect]]
"""Starts the search for a chain from the goal, its two ends, and now."""
SEEK_ROUNDS = 3
"""A search is lost after this number of times its whole duration (`patience_us` times `tries`)."""

MAX_REFUSALS = 6
"""The maximum number of times the tolerated excess over a report is doubled after refusals."""
MAX_PAUSE_FACTOR = 16
"""The maximum factor by which the interval between fruitless searches grows."""
CHANGED = 0.1
"""The relative change in cost after which a search begins before its interval is over."""


def timer(query: str) -> str:
    """The name of a leader's timer."""
    return f"lead {query}"


@dataclass
class _Plan:
    """A placement in preparation or running."""

    version: int
    query: Query
    """The query without the tasks that are reused."""
    taps: Mapping[str, Tap]
    """The reused tasks of other queries."""
    chains: list[Chain]
    hosts: dict[str, str] = field(default_factory=dict)
    routes: Routes = field(default_factory=dict)
    expected: float = 0.0
    chain: int = 0
    """The index of the chain being sought."""
    until_us: int = 0
    """The deadline of the present step."""
    asked_us: int = 0
    """The time when the chain was last asked for."""
    shares: tuple[Share, ...] = ()
    kept: dict[str, float] = field(default_factory=dict)
    """The costs of the shares that cells have confirmed."""
    enforced_us: int | None = None
    """The time when its enforcement ant left."""
    holds: bool = False
    """Whether all cells hold their shares."""
    beside: bool = False
    """Whether the version before it remains for a while because others use it."""
    fetches: dict[str, str] = field(default_factory=dict)
    """The present hosts of stateful tasks whose state has not arrived yet."""
    heard_us: dict[str, int] = field(default_factory=dict)
    repaired_us: dict[str, int] = field(default_factory=dict)
    tapped: set[str] = field(default_factory=set)
    """The cells where other queries use its tasks."""
    ends: bool = False
    """Whether a task that it uses will soon be gone."""

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(share.cell for share in self.shares)


class QueryLeader:
    """The leader of one query."""

    def __init__(
        self, query: Query, name: str, first: int, options: AntOptions, seek: Seeks, now: int
    ) -> None:
        self.query = query
        self._name = name
        self._options = options
        self._seek = seek
        self._rank = (now, query.name)
        self._offers: dict[tuple[str, str, int], Tap] = {}
        """The reusable tasks of other queries that scouts have seen."""
        self._alone: _Plan | None = None
        """The placement without reuse, kept while one with reuse is sought."""
        self._versions = first
        self._runs: _Plan | None = None
        self._next: _Plan | None = None
        self._again_us = 0
        self._soonest_us = 0
        self._pause_us = options.again_us
        self._searched_at_cost = 0.0
        self._refused = 0
        """The number of consecutive refusals of an enforcement ant."""
        self._settled_us = 0
        self._settle_us = options.settle_us
        self._was: dict[str, str] = {}
        """The hosts before the last move."""
        self._renewed_us = 0

    # --- lifecycle ---------------------------------------------------------------------------------

    def start(self, now: int, placed: TellPlaced | None = None) -> list[Effect]:
        """Start to place the query, or to watch its running placement."""
        again = SetTimer(timer(self.query.name), now + self._options.resend_us)
        if placed is None:
            return [*self._begin(now), again]
        left = reduced(self.query, placed.taps)
        plan = _Plan(placed.version, left, placed.taps, chains(left))
        plan.hosts, plan.routes = dict(placed.hosts), dict(placed.routes)
        plan.shares = shares(plan.hosts, plan.routes, plan.taps)
        plan.heard_us = dict.fromkeys(plan.cells, now)
        self._runs, self._rank = plan, placed.rank
        self._settled_us = self._renewed_us = now
        return [*self._ask_to_keep(plan), again]

    def end(self) -> list[Effect]:
        """Release all shares of the query."""
        effects: list[Effect] = []
        if self._runs is not None:
            effects = self._let_go(self._runs, soon=bool(self._runs.tapped))
        if self._next is not None:
            effects += self._let_go(self._next)
        self._runs = self._next = None
        return effects

    def tick(self, now: int) -> list[Effect]:
        """Renew the running placement, pursue the one in preparation, or start a search."""
        effects: list[Effect] = [SetTimer(timer(self.query.name), now + self._options.resend_us)]
        if self._runs is not None:
            effects += self._look_after(self._runs, now)
        if self._next is not None:
            effects += self._press_on(self._next, now)
        elif self._is_due(now):
            effects += self._begin(now)
        return effects

    def _is_due(self, now: int) -> bool:
        """Whether a search for a first or better placement is due."""
        if self._runs is None or self._runs.ends:
            return now >= self._again_us
        if now < self._settled_us:
            return False
        return now >= self._again_us or (now >= self._soonest_us and self._changed())

    def _changed(self) -> bool:
        """Whether the cost of the running placement has changed since the last search."""
        if self._runs is None or not self._searched_at_cost:
            return False
        now_costs = sum(self._runs.kept.values())
        return abs(now_costs / self._searched_at_cost - 1) > CHANGED

    def measured(self, query: Query) -> None:
        """Take new measurements of the query if its tasks are the same."""
        if [task.name for task in query.tasks] == [task.name for task in self.query.tasks]:
            self.query = query

    # --- searching for a placement --------------------------------------------------------------

    def _begin(self, now: int) -> list[Effect]:
        self._again_us = now + self._pause_us
        self._soonest_us = now + self._options.again_us
        self._searched_at_cost = sum(self._runs.kept.values()) if self._runs is not None else 0.0
        self._offers, self._alone = {}, None
        return self._plan({}, now)

    def _plan(self, taps: Mapping[str, Tap], now: int) -> list[Effect]:
        """Start a search for a placement of the tasks that are not reused."""
        self._versions += 1
        left = reduced(self.query, taps)
        self._next = plan = _Plan(self._versions, left, taps, chains(left))
        for tap in taps.values():
            weight = sum(edge.weight for edge in left.outgoing[tap.task])
            plan.expected += self._options.metric.latency * weight * tap.age_s
        return self._seek_chain(plan, now)

    def _seek_chain(self, plan: _Plan, now: int) -> list[Effect]:
        options = self._options
        plan.until_us = now + SEEK_ROUNDS * options.patience_us * options.tries
        return self._ask_for_chain(plan, now)

    def _ask_for_chain(self, plan: _Plan, now: int) -> list[Effect]:
        plan.asked_us = now
        chain = plan.chains[plan.chain]
        source = plan.hosts.get(chain.source) or plan.query.pinned[chain.source]
        target = plan.hosts.get(chain.target) or plan.query.pinned[chain.target]
        again = self._runs is not None
        rank = self._rank if self._options.reuse and not plan.taps else None
        pulled = pulls(chain, plan.hosts, self._options.metric)
        goal = Goal(plan.query, plan.version, plan.chain, dict(plan.hosts), again, pulled, rank)
        return self._seek(goal, source, target, now)

    def sought(self, message: Sought, now: int) -> list[Effect]:
        """Take the result of a chain's search, and seek the next chain or decide."""
        plan = self._next
        if plan is None or (plan.version, plan.chain) != (message.version, message.chain):
            return []
        self._offers |= {(tap.task, tap.query, tap.version): tap for tap in message.taps}
        if message.report is None:
            return self._missed(plan, now)
        self._take(plan, plan.chains[plan.chain], message.report)
        plan.chain += 1
        if plan.chain < len(plan.chains):
            return self._seek_chain(plan, now)
        plan.shares = shares(plan.hosts, plan.routes, plan.taps)
        taps = self._usable(plan)
        if taps:
            self._alone = plan
            return self._plan(taps, now)
        if self._alone is not None and self._alone.expected <= plan.expected:
            self._next = plan = self._alone
        return self._decide(plan, now)

    def _missed(self, plan: _Plan, now: int) -> list[Effect]:
        """Handle a chain without servers: try reuse if possible, or fall back to no reuse."""
        taps = self._usable(plan)
        if taps:
            return self._plan(taps, now)
        if self._alone is not None:
            self._next = self._alone
            return self._decide(self._alone, now)
        tasks = ", ".join(plan.chains[plan.chain].tasks)
        return self._give_up(f"no servers were found for {tasks}", now)

    def _usable(self, plan: _Plan) -> Mapping[str, Tap]:
        """The taps that a plan without reuse could use, with the youngest tuples for each task."""
        if plan.taps:
            return {}
        best: dict[str, Tap] = {}
        for tap in self._offers.values():
            if tap.task not in best or tap.age_s < best[tap.task].age_s:
                best[tap.task] = tap
        return used(self.query, best)

    def _decide(self, plan: _Plan, now: int) -> list[Effect]:
        """Enforce a found placement if there is none or it is worth a move."""
        if self._runs is not None and not self._better(plan, self._runs):
            self._next = None
            self._pause_us = min(2 * self._pause_us, MAX_PAUSE_FACTOR * self._options.again_us)
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
        """Whether a placement is better than the running one by enough to be worth a move."""
        if runs.ends:
            return True
        if len(runs.kept) < len(runs.shares):
            return False
        costs_s = sum(runs.kept.values())
        same = plan.hosts == runs.hosts and _sources(plan) == _sources(runs)
        return costs_s >= self._options.beta * plan.expected and not same

    def _give_up(self, why: str, now: int) -> list[Effect]:
        """Give up the placement in preparation."""
        effects: list[Effect] = []
        if self._next is not None:
            effects = self._let_go(self._next)
        self._next = None
        if self._runs is None:
            self._again_us = now + self._options.patience_us
            effects.append(TellUnplaced(self.query.name, why))
        return effects

    # --- enforcement ------------------------------------------------------------------------------

    def _enforce(self, plan: _Plan, now: int) -> list[Effect]:
        plan.enforced_us = now
        plan.until_us = now + self._options.hold_us // 2
        # After repeated refusals the report is too optimistic rather than out of date.
        most = plan.expected * (1 + self._options.tolerance * 2**self._refused)
        if self._runs is not None and not self._runs.ends:  # it must still be worth a move
            most = min(most, sum(self._runs.kept.values()) / self._options.beta)
        plan.beside = self._runs is not None and bool(self._runs.tapped)
        return [Send(plan.shares[0].cell, self._ant(plan, plan.shares, most))]

    def _ant(self, plan: _Plan, shares: tuple[Share, ...], most: float) -> Enforcement:
        return Enforcement(
            plan.query,
            plan.version,
            self._name,
            shares,
            at=0,
            cost=0.0,
            most=most,
            rank=self._rank,
            remembers=self._remembers(plan),
            beside=plan.beside,
        )

    def _remembers(self, plan: _Plan) -> tuple[tuple[str, str], ...]:
        """The hosts of stateful tasks that have a signature, by signature."""
        found = dict(pair for tap in plan.taps.values() for pair in tap.remembers)
        for task, host in plan.hosts.items():
            if self.query.task[task].state_bytes and task in self.query.signatures:
                found[self.query.signatures[task]] = host
        return tuple(found.items())

    def enforced(self, message: Enforced, now: int) -> list[Effect]:
        """Process the result of the enforcement ant."""
        if self._runs is not None and message.version == self._runs.version:
            return self._broken(message.refused_by, now) if message.refused_by else []
        plan = self._next
        if plan is None or plan.version != message.version or plan.holds:
            return []
        if message.refused_by:
            self._refused = min(self._refused + 1, MAX_REFUSALS)
            return self._give_up(f"{message.refused_by} would not have its share", now)
        plan.holds = True
        plan.fetches = self._to_fetch(plan)
        return self._fetch(plan) if plan.fetches else self._ask_to_keep(plan)

    def _to_fetch(self, plan: _Plan) -> dict[str, str]:
        """The present hosts of stateful tasks that are to run elsewhere."""
        if self._runs is None:
            return {}
        others = dict(pair for tap in self._runs.taps.values() for pair in tap.remembers)
        found = {}
        for task, host in plan.hosts.items():
            if not self.query.task[task].state_bytes:
                continue
            before = self._runs.hosts.get(task)
            if before is None:  # a task of another query holds the state, here or elsewhere
                before = others.get(self.query.signatures.get(task, ""))
            elif before == host:
                continue
            if before is not None:
                found[task] = before
        return found

    def _fetch(self, plan: _Plan) -> list[Effect]:
        """Have cells fetch the state of tasks."""
        by_cell: dict[str, dict[str, str]] = {}
        for task, before in plan.fetches.items():
            by_cell.setdefault(plan.hosts[task], {})[task] = before
        return [
            Send(cell, Fetch(self.query.name, plan.version, by_cell.get(cell, {})))
            for cell in plan.cells
        ]

    def fetched(self, message: Fetched, now: int) -> list[Effect]:
        """Note the state that has been fetched."""
        plan = self._next
        if plan is None or plan.version != message.version or not plan.fetches:
            return []
        for task in message.tasks:
            plan.fetches.pop(task, None)
        if plan.fetches:
            plan.until_us = max(plan.until_us, now + self._options.hold_us // 2)
            return []
        return self._ask_to_keep(plan)

    def _ask_to_keep(self, plan: _Plan, but: Mapping[str, float] | None = None) -> list[Effect]:
        keep = Keep(self.query.name, plan.version)
        return [Send(cell, keep) for cell in plan.cells if cell not in (but or {})]

    def _press_on(self, plan: _Plan, now: int) -> list[Effect]:
        """Repeat messages that may have been lost."""
        if now > plan.until_us:
            return self._give_up("cells did not answer", now)
        if plan.fetches:
            return self._fetch(plan)
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
        """Process a cell's answer whether it has its share."""
        if self._runs is not None and message.version == self._runs.version:
            if not message.there:
                return self._repair(sender, now)
            self._runs.kept[sender] = message.cost
            self._runs.heard_us[sender] = now
            self._runs.tapped.discard(sender)
            if message.tapped:
                self._runs.tapped.add(sender)
            if message.ends and not self._runs.ends:
                self._runs.ends, self._again_us = True, now
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
        """Switch to a placement once all cells run their shares, and release the earlier one."""
        effects: list[Effect] = []
        if self._runs is not None:
            effects = self._let_go(self._runs, soon=plan.beside)
            back = plan.hosts == self._was
            self._settle_us = 2 * self._settle_us if back else self._options.settle_us
            self._was = self._runs.hosts
        self._runs, self._next = plan, None
        self._refused = 0
        self._settled_us = now + self._settle_us
        self._renewed_us = now
        cost = sum(plan.kept.values())
        placed = TellPlaced(
            self.query.name,
            plan.version,
            plan.hosts,
            plan.routes,
            cost,
            dict(plan.taps),
            self._rank,
        )
        return [*effects, placed]

    # --- maintenance ----------------------------------------------------------------------------

    def _look_after(self, plan: _Plan, now: int) -> list[Effect]:
        lease = self._options.lease_us
        silent = [cell for cell, heard in plan.heard_us.items() if now - heard > lease]
        if silent:
            return self._broken(silent[0], now)
        if now - self._renewed_us >= lease // 4:
            self._renewed_us = now
        heard = {cell: 0.0 for cell, at in plan.heard_us.items() if at >= self._renewed_us}
        return self._ask_to_keep(plan, but=heard)

    def _repair(self, cell: str, now: int) -> list[Effect]:
        """Restore the share of a cell that has lost it in a crash, once within a lease."""
        plan = self._runs
        assert plan is not None
        since = now - plan.repaired_us.get(cell, -(1 << 62))
        if since < 2 * self._options.resend_us:
            return []
        if since < self._options.lease_us:
            return self._broken(cell, now)
        plan.repaired_us[cell] = now
        share = next(share for share in plan.shares if share.cell == cell)
        return [Send(cell, self._ant(plan, (share,), inf))]

    def _broken(self, cell: str, now: int) -> list[Effect]:
        """Give up a placement when a cell has lost its share for good."""
        assert self._runs is not None
        effects = self._let_go(self._runs)
        self._runs = None
        self._again_us = now
        effects.append(TellUnplaced(self.query.name, f"{cell} has lost its share"))
        return effects

    def _let_go(self, plan: _Plan, soon: bool = False) -> list[Effect]:
        release = ReleaseShares(self.query.name, plan.version, soon)
        return [Send(cell, release) for cell in plan.cells]

    @property
    def running(self) -> tuple[int, tuple[Share, ...]] | None:
        """The version that runs and its shares."""
        return None if self._runs is None else (self._runs.version, self._runs.shares)


def _sources(plan: _Plan) -> dict[str, tuple[str, int, str]]:
    """The task of another query that a plan reuses, for each of its own."""
    return {task: (tap.query, tap.version, tap.of) for task, tap in plan.taps.items()}


def shares(
    hosts: Mapping[str, str], routes: Routes, taps: Mapping[str, Tap] | None = None
) -> tuple[Share, ...]:
    """The share of each cell in a placement.

    >>> shares({"f": "b"}, {("p", "f"): ("a", "b"), ("f", "c"): ("b",)})
    (Share(cell='a', tasks=(), sends=(('b', 'p', 'f'),), taps=()), Share(cell='b', tasks=('f',), sends=(), taps=()))
    """
    tasks: dict[str, list[str]] = {}
    sends: dict[str, list[tuple[str, str, str]]] = {}
    for (source, target), route in routes.items():
        for here, there in itertools.pairwise(route):
            sends.setdefault(here, []).append((there, source, target))
    for task, host in hosts.items():
        tasks.setdefault(host, []).append(task)
    takes: dict[str, list[Tap]] = {}
    for tap in (taps or {}).values():
        takes.setdefault(tap.at, []).append(tap)
    return tuple(
        Share(
            cell,
            tuple(tasks.get(cell, ())),
            tuple(sends.get(cell, ())),
            tuple(takes.get(cell, ())),
        )
        for cell in dict.fromkeys([*sends, *tasks, *takes])
    )
