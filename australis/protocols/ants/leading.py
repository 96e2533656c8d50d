"""Leaders: at a producer of a query, one sees to it that the query is placed and stays placed well.

It has the chains sought one after the other, and once more without what scouts have seen that other
queries make already; the cheaper of the two placements is taken. It lets an enforcement ant have every cell work out again
what its share costs and hold it, and has them kept when all hold: until then nothing runs, and what
is held goes by itself. What runs goes by itself too when its leader is no longer heard of.
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

MOST_REFUSED = 6
"""What a placement may cost more than its report grows so often at most."""
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
    query: Query
    """What is to be placed,"""
    taps: Mapping[str, Tap]
    """and what comes from other queries."""
    chains: list[Chain]
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
    beside: bool = False
    """Whether the version before it stays for a while."""
    fetches: dict[str, str] = field(default_factory=dict)
    """Where tasks are that remember something and have not brought it along yet."""
    heard_us: dict[str, int] = field(default_factory=dict)
    repaired_us: dict[str, int] = field(default_factory=dict)
    tapped: set[str] = field(default_factory=set)
    """The cells where other queries use something of it."""
    ends: bool = False
    """Whether something it uses will soon be gone."""

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(share.cell for share in self.shares)


class Leading:
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
        """What other queries make, as far as scouts have seen."""
        self._alone: _Plan | None = None
        """The placement that uses nothing of others, while one is sought that does."""
        self._versions = first
        self._runs: _Plan | None = None
        self._next: _Plan | None = None
        self._again_us = 0
        self._soonest_us = 0
        self._pause_us = options.again_us
        self._searched_at_cost = 0.0
        self._refused = 0
        """How often in a row an enforcement ant was refused."""
        self._settled_us = 0
        self._settle_us = options.settle_us
        self._was: dict[str, str] = {}
        """Where it ran before it was moved last."""
        self._renewed_us = 0

    # --- life ---------------------------------------------------------------------------------

    def start(self, now: int, placed: TellPlaced | None = None) -> list[Effect]:
        """Begin to place it, or to see after it where it runs."""
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
        """It is not wanted any longer."""
        effects: list[Effect] = []
        if self._runs is not None:
            effects = self._let_go(self._runs, soon=bool(self._runs.tapped))
        if self._next is not None:
            effects += self._let_go(self._next)
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
        if self._runs is None or self._runs.ends:
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
            self.query = query

    # --- looking for a placement ----------------------------------------------------------------

    def _begin(self, now: int) -> list[Effect]:
        self._again_us = now + self._pause_us
        self._soonest_us = now + self._options.again_us
        self._searched_at_cost = sum(self._runs.kept.values()) if self._runs is not None else 0.0
        self._offers, self._alone = {}, None
        return self._plan({}, now)

    def _plan(self, taps: Mapping[str, Tap], now: int) -> list[Effect]:
        """Look for a placement of what does not come from other queries."""
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
        """What the ants have found for a chain."""
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
        """No servers were found for a chain: with other queries' tasks there may be some, or without
        them."""
        taps = self._usable(plan)
        if taps:
            return self._plan(taps, now)
        if self._alone is not None:
            self._next = self._alone
            return self._decide(self._alone, now)
        tasks = ", ".join(plan.chains[plan.chain].tasks)
        return self._give_up(f"no servers were found for {tasks}", now)

    def _usable(self, plan: _Plan) -> Mapping[str, Tap]:
        """What a plan could use of other queries that uses nothing so far: the youngest of each."""
        if plan.taps:
            return {}
        best: dict[str, Tap] = {}
        for tap in self._offers.values():
            if tap.task not in best or tap.age_s < best[tap.task].age_s:
                best[tap.task] = tap
        return used(self.query, best)

    def _decide(self, plan: _Plan, now: int) -> list[Effect]:
        """A placement is found: is it worth it?"""
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
        if runs.ends:
            return True
        if len(runs.kept) < len(runs.shares):
            return False
        costs_s = sum(runs.kept.values())
        same = plan.hosts == runs.hosts and _sources(plan) == _sources(runs)
        return costs_s >= self._options.beta * plan.expected and not same

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
        # Whoever is refused again and again has not come too late: its report is too good.
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
        """Where tasks are that remember something, and that others may know by a signature."""
        found = dict(pair for tap in plan.taps.values() for pair in tap.remembers)
        for task, host in plan.hosts.items():
            if self.query.task[task].state_bytes and task in self.query.signatures:
                found[self.query.signatures[task]] = host
        return tuple(found.items())

    def enforced(self, message: Enforced, now: int) -> list[Effect]:
        """The enforcement ant is back."""
        if self._runs is not None and message.version == self._runs.version:
            return self._broken(message.refused_by, now) if message.refused_by else []
        plan = self._next
        if plan is None or plan.version != message.version or plan.holds:
            return []
        if message.refused_by:
            self._refused = min(self._refused + 1, MOST_REFUSED)
            return self._give_up(f"{message.refused_by} would not have its share", now)
        plan.holds = True
        plan.fetches = self._to_fetch(plan)
        return self._fetch(plan) if plan.fetches else self._ask_to_keep(plan)

    def _to_fetch(self, plan: _Plan) -> dict[str, str]:
        """Where the tasks have run so far that remember something and are to run elsewhere."""
        if self._runs is None:
            return {}
        others = dict(pair for tap in self._runs.taps.values() for pair in tap.remembers)
        found = {}
        for task, host in plan.hosts.items():
            if not self.query.task[task].state_bytes:
                continue
            before = self._runs.hosts.get(task)
            if before is None:  # another query's task has remembered it, here or elsewhere
                before = others.get(self.query.signatures.get(task, ""))
            elif before == host:
                continue
            if before is not None:
                found[task] = before
        return found

    def _fetch(self, plan: _Plan) -> list[Effect]:
        """Have cells bring along what tasks remember."""
        by_cell: dict[str, dict[str, str]] = {}
        for task, before in plan.fetches.items():
            by_cell.setdefault(plan.hosts[task], {})[task] = before
        return [
            Send(cell, Fetch(self.query.name, plan.version, by_cell.get(cell, {})))
            for cell in plan.cells
        ]

    def fetched(self, message: Fetched, now: int) -> list[Effect]:
        """Some of it has been brought."""
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
        """Something may have been lost on the way."""
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
        """A cell says whether it has its share."""
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
        """All cells have their shares: it runs there from now on, and no longer elsewhere."""
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

    def _repair(self, cell: str, now: int) -> list[Effect]:
        """A cell has lost its share, as one does that has crashed: let it have it again, once."""
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
        """A cell has lost its share: the rest of the placement is of no use."""
        assert self._runs is not None
        effects = self._let_go(self._runs)
        self._runs = None
        self._again_us = now
        effects.append(TellUnplaced(self.query.name, f"{cell} has lost its share"))
        return effects

    def _let_go(self, plan: _Plan, soon: bool = False) -> list[Effect]:
        release = Release(self.query.name, plan.version, soon)
        return [Send(cell, release) for cell in plan.cells]

    @property
    def running(self) -> tuple[int, tuple[Share, ...]] | None:
        """The version that runs, and the shares of it."""
        return None if self._runs is None else (self._runs.version, self._runs.shares)


def _sources(plan: _Plan) -> dict[str, tuple[str, int, str]]:
    """What a plan takes from other queries."""
    return {task: (tap.query, tap.version, tap.of) for task, tap in plan.taps.items()}


def shares(
    hosts: Mapping[str, str], routes: Routes, taps: Mapping[str, Tap] | None = None
) -> tuple[Share, ...]:
    """What each cell has of a placement.

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
