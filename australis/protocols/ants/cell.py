"""A cell: the state machine of all ants at one server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec

from australis.kernel.machine import Effect, Event, MessageReceived, Send, SetTimer, TimerFired
from australis.placement.network import Server
from australis.placement.queries import Query
from australis.placement.reuse import Tap
from australis.protocols.ants import seeking
from australis.protocols.ants.distances import Distances
from australis.protocols.ants.events import (
    Aged,
    AntOptions,
    Dequeued,
    Disturbed,
    FetchState,
    Measured,
    Started,
    StateCame,
    Submitted,
    TellPlaced,
    Withdrawn,
)
from australis.protocols.ants.leader import QueryLeader
from australis.protocols.ants.messages import (
    Enforced,
    Enforcement,
    Fetch,
    Fetched,
    Goal,
    Homing,
    Keep,
    Kept,
    Ping,
    Pong,
    ReleaseShares,
    Report,
    Reporting,
    Routing,
    Scent,
    Scout,
    Seek,
    Sought,
)
from australis.protocols.ants.scents import SCENT, Scents
from australis.protocols.ants.scouting import WAIT, Scouting
from australis.protocols.ants.seeking import Seeking
from australis.protocols.ants.server_state import ServerState
from australis.protocols.ants.trails import Towards, Trails
from australis.queueing.links import Wire

TIDY = "tidy"
VERSIONS = 1 << 32
"""The number of query versions that one incarnation can assign."""


class CellMachine:
    """One cell."""

    ground_class = ServerState
    leading_class = QueryLeader

    def __init__(
        self,
        server: Server,
        links: Mapping[str, Wire],
        rng: Random,
        options: AntOptions | None = None,
        towards: Towards = lambda destination: None,
    ) -> None:
        self.name = server.name
        self.options = options or AntOptions()
        self._rng = rng
        self.ground = self.ground_class(server, links, self.options.metric)
        self.trails = Trails(self.name, tuple(links), rng, self.options, towards)
        self.scents = Scents(self.name, self.ground, self.options)
        self.distances = Distances(self.name, self.options)
        self.scouting = Scouting(
            self.name, self.ground, self.trails, self.scents, self.distances, self.options
        )
        self._seekings: dict[tuple[str, int, int], Seeking] = {}
        self.leaders: dict[str, QueryLeader] = {}
        self._first = 0
        self._messages: dict[type, Callable[[str, Any, int], list[Effect]]] = {
            Routing: self._routing,
            Ping: lambda sender, ping, now: [Send(sender, Pong(ping.asked_us))],
            Pong: self._pong,
            Homing: self._homing,
            Scout: lambda sender, ant, now: self.scouting.arrived(ant, now),
            Reporting: self._reporting,
            Seek: lambda sender, m, now: self._seek_here(m.goal, m.destination, sender, now),
            Sought: self._sought,
            Enforcement: self._enforce,
            Enforced: self._enforced,
            Keep: self._keep,
            Kept: self._kept,
            Fetch: self._fetch,
            Fetched: self._fetched,
            ReleaseShares: self._release,
            Scent: self._smell,
        }

    # --- events -------------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event and return its effects in order."""
        match event:
            case MessageReceived(sender, message):
                return self._messages[type(message)](sender, message, now)
            case Dequeued(ant):
                if isinstance(ant, Routing):
                    return self.trails.go_on(ant, now)
                return self.scouting.go_on(ant, now)
            case TimerFired(name):
                return self._fired(name, now)
            case Submitted(query):
                return self._lead(query, now)
            case Measured(query):
                self.ground.measured(query)
                if query.name in self.leaders:
                    self.leaders[query.name].measured(query)
                return []
            case Disturbed(use):
                self.ground.busy_with(use)
                return []
            case Aged(query, task, age_s):
                self.ground.aged(query, task, age_s)
                return []
            case StateCame(query, version, task):
                self.ground.fetched(query, version, task)
                return []
            case Withdrawn(name):
                leader = self.leaders.pop(name, None)
                return leader.end() if leader is not None else []
            case Started():
                return self._start(event, now)
        raise AssertionError(f"unknown event {event}")

    def _start(self, started: Started, now: int) -> list[Effect]:
        self._first = started.incarnation * VERSIONS
        soon = self._rng.randrange(1, self.options.scent_us)
        effects: list[Effect] = [
            SetTimer(SCENT, now + soon),
            SetTimer(TIDY, now + self.options.hold_us // 4),
        ]
        placed = {told.query: told for told in started.placed}
        for query in started.queries:
            effects += self._lead(query, now, placed.get(query.name))
        return effects

    def _fired(self, name: str, now: int) -> list[Effect]:
        if name == SCENT:
            return self.scents.tell(now)
        if name == WAIT:
            return self.scouting.measured(now, patient=False)
        if name == TIDY:
            self.ground.expire(now)
            self.trails.expire(now)
            self.distances.expire(now)
            return [SetTimer(TIDY, now + self.options.hold_us // 4)]
        kind, _, rest = name.partition(" ")
        if kind == "lead":
            leader = self.leaders.get(rest)
            return leader.tick(now) if leader is not None else []
        found = next((s for s in self._seekings.values() if seeking.timer(s.key) == name), None)
        return found.timed_out(now) if found is not None else []

    # --- leaders --------------------------------------------------------------------------------

    def _lead(self, query: Query, now: int, placed: TellPlaced | None = None) -> list[Effect]:
        old = self.leaders.get(query.name)
        effects = old.end() if old is not None else []
        self._first += VERSIONS >> 12  # a later leader has higher versions
        leader = self.leading_class(query, self.name, self._first, self.options, self._seek, now)
        self.leaders[query.name] = leader
        return [*effects, *leader.start(now, placed)]

    def _seek(self, goal: Goal, source: str, target: str, now: int) -> list[Effect]:
        if source == self.name:
            return self._seek_here(goal, target, self.name, now)
        return [Send(source, Seek(goal, target))]

    def _seek_here(self, goal: Goal, target: str, leader: str, now: int) -> list[Effect]:
        key = (goal.query.name, goal.version, goal.chain)
        if key in self._seekings:
            return []

        def done(report: Report | None, taps: tuple[Tap, ...], at: int) -> list[Effect]:
            self._seekings.pop(key, None)
            said = Sought(*key, report, taps)
            return (
                self._sought(self.name, said, at) if leader == self.name else [Send(leader, said)]
            )

        found = Seeking(goal, target, self.trails, self.scouting, self._rng, self.options, done)
        self._seekings[key] = found
        asks = self.distances.ask((pull.server for pull in goal.pulls), now)
        return [*asks, *found.start(now, at_home=target == self.name)]

    def _sought(self, sender: str, message: Sought, now: int) -> list[Effect]:
        leader = self.leaders.get(message.query)
        return leader.sought(message, now) if leader is not None else []

    def _enforced(self, sender: str, message: Enforced, now: int) -> list[Effect]:
        leader = self.leaders.get(message.query)
        return leader.enforced(message, now) if leader is not None else []

    def _kept(self, sender: str, message: Kept, now: int) -> list[Effect]:
        leader = self.leaders.get(message.query)
        return leader.kept(sender, message, now) if leader is not None else []

    def _fetched(self, sender: str, message: Fetched, now: int) -> list[Effect]:
        leader = self.leaders.get(message.query)
        return leader.fetched(message, now) if leader is not None else []

    # --- ants -----------------------------------------------------------------------------------

    def _routing(self, sender: str, ant: Routing, now: int) -> list[Effect]:
        return [*self.distances.ask(ant.beside, now), *self.trails.arrived(ant, now)]

    def _pong(self, sender: str, pong: Pong, now: int) -> list[Effect]:
        self.distances.answered(sender, pong, now)
        return self.scouting.measured(now)

    def _homing(self, sender: str, ant: Homing, now: int) -> list[Effect]:
        effects, at_home = self.trails.homing(ant, now)
        if at_home:
            for one in list(self._seekings.values()):
                if one.destination == ant.destination:
                    effects += one.ant_back(now)
        return effects

    def _reporting(self, sender: str, ant: Reporting, now: int) -> list[Effect]:
        effects = self.scouting.returning(ant, now)
        if effects is not None:
            return effects
        one = self._seekings.get(ant.goal)
        return one.reported(ant, now) if one is not None else []

    def _smell(self, sender: str, message: Scent, now: int) -> list[Effect]:
        self.scents.told(sender, message, now)
        return []

    # --- shares -----------------------------------------------------------------------------------

    def _enforce(self, sender: str, ant: Enforcement, now: int) -> list[Effect]:
        share = ant.shares[ant.at]
        total = ant.cost + self.ground.cost(ant.query, share)
        beside = ant.version if ant.beside else None
        if total > ant.most or not self.ground.fits(ant.query, share, beside):
            refusal = Enforced(ant.query.name, ant.version, total, refused_by=self.name)
            return [Send(ant.leader, refusal)]
        until = now + self.options.hold_us
        self.ground.hold(ant.query, ant.version, share, until, ant.rank, ant.remembers)
        if ant.at + 1 == len(ant.shares):
            return [Send(ant.leader, Enforced(ant.query.name, ant.version, total))]
        further = msgspec.structs.replace(ant, at=ant.at + 1, cost=total)
        return [Send(ant.shares[ant.at + 1].cell, further)]

    def _keep(self, sender: str, message: Keep, now: int) -> list[Effect]:
        until = now + self.options.lease_us
        query, version = message.query, message.version
        cost = self.ground.keep(query, version, until)
        if cost is None:
            return [Send(sender, Kept(query, version, there=False))]
        tapped = self.ground.is_tapped(query, version)
        ends = self.ground.ends_soon(query, version, now + self.options.lease_us // 2)
        return [Send(sender, Kept(query, version, True, cost, tapped, ends))]

    def _fetch(self, sender: str, message: Fetch, now: int) -> list[Effect]:
        query, version = message.query, message.version
        there = self.ground.hold_on(query, version, now + self.options.hold_us)
        if there is None:
            return [Send(sender, Kept(query, version, there=False))]
        effects: list[Effect] = [
            FetchState(query, version, task, source)
            for task, source in message.tasks.items()
            if task not in there
        ]
        return [*effects, Send(sender, Fetched(query, version, tuple(sorted(there))))]

    def _release(self, sender: str, message: ReleaseShares, now: int) -> list[Effect]:
        until = now + self.options.grace_us if message.soon else None
        self.ground.release(message.query, message.version, until)
        return []
