"""The steward of one node: it spreads deployments, and carries changes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from australis.deployment.cluster import steward_machine
from australis.deployment.deployed import (
    Change,
    Deployment,
    Edit,
    MemberRole,
    ReplicaSet,
    avoid,
    begin,
    cancel,
    finish,
    permit,
    submit,
    switch,
    take_over,
    withdraw,
)
from australis.kernel.errors import UserError
from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.protocols.change.events import (
    Adopt,
    CancelWanted,
    ChangeOptions,
    ChangeWanted,
    DrainWanted,
    EditDecided,
    EditFailed,
    FindProgress,
    ProgressFound,
    Started,
    SubmitEdit,
    SubmitWanted,
    TellChange,
    WithdrawWanted,
)
from australis.protocols.change.messages import (
    Deployed,
    OutputProgress,
    Progress,
    ProgressRequest,
    ReaderProgress,
    Versions,
)

LOOK, GOSSIP = "look", "gossip"


@dataclass
class Watch:
    """What a steward knows of a pending change."""

    number: int
    since_us: int
    """When this node first heard of it, or when its state last advanced."""
    calm: int = 0
    editing: str = ""
    """The tag of the edit that is being decided."""
    progress: dict[str, tuple[int, Progress]] = field(default_factory=dict)
    """The latest report of each machine, and when it came."""


class StewardMachine:
    """The steward of one node; its name is `steward@NODE`."""

    def __init__(self, name: str, options: ChangeOptions, rng: Random) -> None:
        self.name = name
        self.deployments: dict[str, Deployment] = {}
        self._options = options
        self._rng = rng
        self._nodes: tuple[str, ...] = ()
        self._watches: dict[str, Watch] = {}
        """The pending change of each application."""
        self._users: dict[str, str] = {}
        """The tags of users by application and number of their change."""
        self._edits = 0
        self._kinds: dict[str, str] = {}
        """What kind of node each steward is on."""
        self._learned_us: dict[str, int] = {}
        """When this node heard of the newest deployment of each application."""
        self._tried_us: dict[str, int] = {}
        """When this node last tried to move what is on a drained node, by application."""
        self._handlers: dict[type[Event], Callable[[Any, int], list[Effect]]] = {
            Started: self._started,
            ChangeWanted: self._wanted,
            CancelWanted: lambda event, now: self._of_user(event.tag, event.application, cancel),
            DrainWanted: lambda event, now: self._of_user(
                event.tag,
                event.application,
                avoid(event.node) if event.drained else permit(event.node),
            ),
            SubmitWanted: lambda event, now: self._of_user(
                event.tag, event.deployment.application, submit(event.deployment)
            ),
            WithdrawWanted: lambda event, now: self._of_user(
                event.tag, event.application, withdraw
            ),
            EditDecided: self._decided,
            EditFailed: self._failed,
            ProgressFound: self._found,
            TimerFired: self._fired,
            MessageReceived: lambda event, now: self._messages[type(event.message)](
                event.sender, event.message, now
            ),
        }
        self._messages: dict[type[Message], Callable[[str, Any, int], list[Effect]]] = {
            Versions: self._versions,
            Deployed: lambda sender, message, now: self._learn(message.deployment, now),
            ProgressRequest: self._asked,
            Progress: self._reported,
        }

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        return self._handlers[type(event)](event, now)

    def _started(self, event: Started, now: int) -> list[Effect]:
        self._nodes = event.nodes
        self._kinds = dict(zip(event.nodes, event.kinds, strict=False))
        effects: list[Effect] = []
        for deployment in event.deployments:
            effects += self._learn(deployment, now, tell=False)
        timers = [SetTimer(LOOK, now + self._options.look_us)]
        return [*effects, *self._gossip(now), *timers]

    def _fired(self, event: TimerFired, now: int) -> list[Effect]:
        if event.name == GOSSIP:
            return self._gossip(now)
        effects: list[Effect] = [SetTimer(LOOK, now + self._options.look_us)]
        for application, watch in list(self._watches.items()):
            effects += self._look(self.deployments[application], watch, now)
        for deployment in list(self.deployments.values()):
            effects += self._empty(deployment, now)
        return effects

    # --- what users want ------------------------------------------------------------------------

    def _wanted(self, event: ChangeWanted, now: int) -> list[Effect]:
        return self._of_user(event.tag, event.application, _begins(event, self.name))

    def _of_user(self, tag: str, application: str, edit: Edit) -> list[Effect]:
        return [SubmitEdit(f"user {tag}", application, edit)]

    # --- edits ----------------------------------------------------------------------------------

    def _submit(self, deployment: Deployment, watch: Watch, edit: Edit | None) -> list[Effect]:
        self._edits += 1
        watch.editing = f"{self.name} {self._edits}"
        return [SubmitEdit(watch.editing, deployment.application, edit)]

    def _decided(self, event: EditDecided, now: int) -> list[Effect]:
        deployment = event.deployment
        for watch in self._watches.values():
            if watch.editing == event.tag:
                watch.editing = ""
        effects = self._learn(deployment, now, decided=True)
        who, _, tag = event.tag.partition(" ")
        if who != "user":
            return effects
        if deployment.change is None:
            return [*effects, TellChange(tag, "done", deployment=deployment)]
        self._users[f"{deployment.application} {deployment.change.number}"] = tag
        return [*effects, TellChange(tag, "begun", deployment=deployment)]

    def _failed(self, event: EditFailed, now: int) -> list[Effect]:
        who, _, tag = event.tag.partition(" ")
        if who == "drain":  # somebody was first: what has been made of it is read
            return [SubmitEdit(f"read {tag}", tag, None)]
        if who == "user":
            return [TellChange(tag, "unknown" if event.unknown else "refused", event.why)]
        for application, watch in self._watches.items():
            if watch.editing == event.tag:
                # Another node may have been first: what it has made of it is read.
                return self._submit(self.deployments[application], watch, None)
        return []

    # --- versions -------------------------------------------------------------------------------

    def _gossip(self, now: int) -> list[Effect]:
        effects: list[Effect] = [SetTimer(GOSSIP, now + self._options.gossip_us)]
        others = [node for node in self._nodes if node != self.name]
        if others:
            effects.append(Send(self._rng.choice(others), Versions(self._known)))
        return effects

    @property
    def _known(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, one.version) for name, one in sorted(self.deployments.items()))

    def _versions(self, sender: str, message: Versions, now: int) -> list[Effect]:
        theirs = dict(message.known)
        newer = [
            one
            for name, one in self.deployments.items()
            if name in message.asks or one.version > theirs.get(name, 0)
        ]
        mine = dict(self._known)
        asks = tuple(name for name, version in message.known if version > mine.get(name, 0))
        effects: list[Effect] = [Send(sender, Deployed(one)) for one in newer]
        return [*effects, Send(sender, Versions((), asks))] if asks else effects

    def _learn(
        self, deployment: Deployment, now: int, *, tell: bool = True, decided: bool = False
    ) -> list[Effect]:
        """Adopt a newer deployment, and tell all nodes if this one has decided it."""
        name = deployment.application
        before = self.deployments.get(name)
        if deployment.version <= (0 if before is None else before.version):
            return []
        self.deployments[name] = deployment
        self._learned_us[name] = now
        self._tried_us.pop(name, None)
        effects: list[Effect] = [Adopt(deployment)]
        change = deployment.change
        mine = change is not None and change.steward == self.name
        if tell and (decided or mine or (before is not None and self._drove(before))):
            effects += self._tell_all(deployment)
        effects += self._tell_user(before, deployment)
        if change is None:
            self._watches.pop(name, None)
        else:
            self._watch(name, change, now)
        return effects

    def _drove(self, deployment: Deployment) -> bool:
        return deployment.change is not None and deployment.change.steward == self.name

    def _watch(self, application: str, change: Change, now: int) -> None:
        watch = self._watches.get(application)
        if watch is None or watch.number != change.number:
            self._watches[application] = Watch(change.number, now)
        else:
            watch.since_us, watch.calm = now, 0

    def _tell_all(self, deployment: Deployment) -> list[Effect]:
        return [Send(n, Deployed(deployment)) for n in self._nodes if n != self.name]

    def _tell_user(self, before: Deployment | None, after: Deployment) -> list[Effect]:
        """Tell the user of a change that it has switched, or how it has ended."""
        if before is None or before.change is None:
            return []
        key = f"{after.application} {before.change.number}"
        if key not in self._users:
            return []
        if after.change is not None and after.change.number == before.change.number:
            switched = after.change.switched and not before.change.switched
            return [TellChange(self._users[key], "switched")] if switched else []
        outcome = "done" if before.change.switched or _is_done(before, after) else "cancelled"
        return [TellChange(self._users.pop(key), outcome, deployment=after)]

    # --- carrying a change out --------------------------------------------------------------------

    def _look(self, deployment: Deployment, watch: Watch, now: int) -> list[Effect]:
        change = deployment.change
        assert change is not None
        if watch.editing:
            return []
        if change.steward != self.name:
            late = now - watch.since_us > self._patience_us(change)
            return (
                self._submit(deployment, watch, _expecting(change, self._take_over)) if late else []
            )
        members = deployment.set_of(change.fragment).members
        request = ProgressRequest(deployment.application, change.fragment, deployment.version)
        effects: list[Effect] = [Send(steward_machine(m.node), request) for m in members]
        if change.switched:
            if self._emptied(deployment, watch, now):
                return effects + self._submit(deployment, watch, _expecting(change, finish))
            return effects
        watch.calm = watch.calm + 1 if self._ready(deployment, watch, now) else 0
        if watch.calm >= self._options.calm_looks or not change.add:
            return effects + self._submit(deployment, watch, _expecting(change, switch))
        if now - watch.since_us > self._options.join_us:
            return effects + self._submit(deployment, watch, _expecting(change, cancel))
        return effects

    def _take_over(self, deployment: Deployment) -> Deployment:
        return take_over(deployment, self.name)

    def _patience_us(self, change: Change) -> int:
        """How long to leave a change to its steward; not all others step in at once."""
        place = self._nodes.index(self.name) + 1 if self.name in self._nodes else 1
        return self._options.join_us + place * self._options.silent_us

    # --- draining ---------------------------------------------------------------------------------

    def _empty(self, deployment: Deployment, now: int) -> list[Effect]:
        """Begin to move a replica from a node that is being drained, one after the other.

        The first node that may have the application does it; where nothing happens the next one
        steps in.
        """
        if deployment.change is not None or not deployment.avoids:
            return []
        name = deployment.application
        able = [one for one in self._nodes if _node_of(one) not in deployment.avoids]
        turn = able.index(self.name) if self.name in able else len(able)
        tried_us = self._tried_us.get(name, now - self._options.retry_us)
        waits_us = self._learned_us[name] + turn * self._options.silent_us
        if now < max(waits_us, tried_us + self._options.retry_us):
            return []
        for one in deployment.sets:
            for member in one.members:
                if member.node in deployment.avoids:
                    target = self._target(deployment, one, member.node)
                    if target is not None:
                        self._tried_us[name] = now
                        edit = self._moving(deployment.version, one.fragment, member.node, target)
                        return [SubmitEdit(f"drain {name}", name, edit)]
        return []

    def _target(self, deployment: Deployment, one: ReplicaSet, leaves: str) -> str | None:
        """The node that runs least, of those that can have a replica instead of another one."""
        kind = self._kinds.get(steward_machine(leaves))
        runs: dict[str, int] = {}
        for steward in self._nodes:
            node = _node_of(steward)
            alike = self._kinds.get(steward) == kind
            if alike and node not in deployment.avoids and one.on(node) is None:
                runs[node] = sum(len(other.on(node)) for other in self.deployments.values())
        return min(runs, key=lambda node: runs[node], default=None)

    def _moving(self, version: int, fragment: str, source: str, target: str) -> Edit:
        def edit(deployment: Deployment) -> Deployment:
            if deployment.version != version:
                raise UserError("has gone on meanwhile", name=deployment.application)
            return begin(deployment, fragment, add=(target,), drop=(source,), steward=self.name)

        return edit

    # --- progress ---------------------------------------------------------------------------------

    def _asked(self, sender: str, request: ProgressRequest, now: int) -> list[Effect]:
        known = self.deployments.get(request.application)
        effects: list[Effect] = []
        if known is None or known.version < request.version:
            effects.append(Send(sender, Versions((), (request.application,))))
        if known is None or request.fragment not in {one.fragment for one in known.sets}:
            return effects
        return [*effects, FindProgress(request.application, request.fragment, sender)]

    def _found(self, event: ProgressFound, now: int) -> list[Effect]:
        e = event
        progress = Progress(e.application, e.fragment, e.machine, e.version, e.outputs)
        if e.to == self.name:
            return self._reported(self.name, progress, now)
        return [Send(e.to, progress)]

    def _reported(self, sender: str, progress: Progress, now: int) -> list[Effect]:
        watch = self._watches.get(progress.application)
        deployment = self.deployments.get(progress.application)
        if watch is None or deployment is None or deployment.change is None:
            return []
        if progress.fragment == deployment.change.fragment:
            watch.progress[progress.machine] = now, progress
        return []

    def _fresh(self, watch: Watch, machines: Iterable[str], now: int) -> list[Progress]:
        """The latest reports of those machines that have reported lately."""
        since_us = now - 2 * self._options.look_us
        found = (watch.progress.get(machine) for machine in machines)
        return [
            one[1] for one in found if one is not None and one[0] >= since_us and one[1].outputs
        ]

    def _ready(self, deployment: Deployment, watch: Watch, now: int) -> bool:
        """Whether all replicas that join could be read."""
        machines = deployment.set_of(deployment.change.fragment).machines  # type: ignore[union-attr]
        joining = machines(MemberRole.JOINING)
        new = self._fresh(watch, joining, now)
        if len(new) < len(joining):
            return False
        old = self._fresh(watch, machines(MemberRole.FULL), now)
        ends = _ends(old)
        return all(self._is_ready(one, ends) for report in new for one in report.outputs)

    def _is_ready(self, output: OutputProgress, ends: dict[str, int]) -> bool:
        near = output.end >= ends.get(output.stream, -1) - self._options.near_buckets
        return output.ready and output.held and near

    def _emptied(self, deployment: Deployment, watch: Watch, now: int) -> bool:
        """Whether nobody reads the replicas that leave, or needs what their logs alone have."""
        machines = deployment.set_of(deployment.change.fragment).machines  # type: ignore[union-attr]
        stay = [
            one
            for one in self._fresh(watch, machines(MemberRole.FULL), now)
            if one.version >= deployment.version and all(o.ready for o in one.outputs)
        ]
        leave = self._fresh(watch, machines(MemberRole.LEAVING), now)
        return bool(stay) and all(
            _needs_none_of(stream, stay, leave) for stream in _ends(stay + leave)
        )


def _node_of(steward: str) -> str:
    return steward.partition("@")[2]


def _ends(reports: Iterable[Progress]) -> dict[str, int]:
    """The end of the longest log of each stream."""
    ends: dict[str, int] = {}
    for output in (output for report in reports for output in report.outputs):
        ends[output.stream] = max(ends.get(output.stream, -1), output.end)
    return ends


def _needs_none_of(stream: str, stay: list[Progress], leave: list[Progress]) -> bool:
    """Whether all consumers of a stream can do without the replicas that leave."""
    kept = [o for report in stay for o in report.outputs if o.stream == stream]
    gone = [o for report in leave for o in report.outputs if o.stream == stream]
    if not kept:
        return False
    begins = min(output.trimmed_upto for output in kept)
    if any(reader.follows and reader.heard for output in gone for reader in output.readers):
        return False
    names = {reader.name for output in kept for reader in output.readers}
    return all(_is_served(name, kept, gone, begins) for name in names)


def _is_served(
    name: str, kept: list[OutputProgress], gone: list[OutputProgress], begins: int
) -> bool:
    """Whether a consumer finds what it needs in the logs that stay."""

    def of(outputs: list[OutputProgress]) -> list[ReaderProgress]:
        return [reader for output in outputs for reader in output.readers if reader.name == name]

    here, there = of(kept), of(gone)
    if not any(reader.awaited for reader in here):
        return True
    if any(r.heard for r in there) and not any(r.heard for r in here):
        return False  # it does not know yet where else to read
    has = max(reader.acknowledged for reader in here + there)
    whole = bool(gone) and begins <= min(output.trimmed_upto for output in gone)
    return (whole or has >= begins) and has >= max((r.given for r in there), default=-1)


def _is_done(before: Deployment, after: Deployment) -> bool:
    """Whether a change that was not seen switching has ended with its new members."""
    assert before.change is not None
    nodes = {m.node for m in after.set_of(before.change.fragment).members}
    return nodes.issuperset(before.change.add) and not nodes & {*before.change.drop}


def _begins(wanted: ChangeWanted, steward: str) -> Edit:
    def edit(deployment: Deployment) -> Deployment:
        w = wanted
        return begin(deployment, w.fragment, add=w.add, drop=w.drop, steward=steward)

    return edit


def _expecting(change: Change, edit: Edit) -> Edit:
    """An edit of one change, in the state in which this one is."""

    def checked(deployment: Deployment) -> Deployment:
        now = deployment.change
        if now is None or (now.number, now.switched) != (change.number, change.switched):
            raise UserError("has gone on meanwhile", name=deployment.application)
        return edit(deployment)

    return checked
