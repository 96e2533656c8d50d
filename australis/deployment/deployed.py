"""What runs where, as data with versions: an application's replica sets and the edits of them.

A deployment is a value. An edit gives the next version or refuses with a `UserError`; it is applied
by the register of the application (`protocols.register`), so that all edits form one history. The
rules follow from equal logs: adding a replica is harmless, since it writes the same bytes; what may
be forgotten is decided here.

    deployment = submitted("monitoring", digest, {"suspects": ("a", "b")}, {"site0": "a"})
    deployment = begin(deployment, "suspects", add=("c",), drop=("a",))    # c joins
    deployment = switch(deployment)                                       # c is full, a leaves
    deployment = finish(deployment)                                       # a is gone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from australis.deployment.cluster import Cluster, machine_name
from australis.kernel.errors import UserError, unknown_name


class MemberRole(StrEnum):
    """What a member of a replica set does."""

    JOINING = "joining"
    """It copies a state and catches up; nobody reads it."""
    FULL = "full"
    LEAVING = "leaving"
    """It works on, but is read only while no other one is stable."""


class Member(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One replica of a fragment."""

    node: str
    incarnation: int = 0
    """Counts the replicas of the fragment that a node has had, so that each has its own name."""
    role: MemberRole = MemberRole.FULL

    def machine(self, fragment: str) -> str:
        """The name of its machine.

        >>> Member("a").machine("suspects"), Member("a", 2).machine("suspects")
        ('suspects@a', 'suspects@a#2')
        """
        name = machine_name(fragment, self.node)
        return f"{name}#{self.incarnation}" if self.incarnation else name


class ReplicaSet(msgspec.Struct, frozen=True, array_like=True):
    """The replicas of a fragment."""

    fragment: str
    members: tuple[Member, ...] = ()
    incarnations: tuple[tuple[str, int], ...] = ()
    """The incarnation that the next replica on a node has, where there has been one before."""

    def machines(self, role: MemberRole) -> tuple[str, ...]:
        """The machines of the members with a role."""
        return tuple(m.machine(self.fragment) for m in self.members if m.role is role)

    def on(self, node: str) -> Member | None:
        """The member on a node."""
        return next((m for m in self.members if m.node == node), None)

    @property
    def full(self) -> tuple[Member, ...]:
        """The members that are neither joining nor leaving."""
        return tuple(m for m in self.members if m.role is MemberRole.FULL)


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change of one replica set that has begun."""

    number: int
    """The version with which it began, which is its name."""
    fragment: str
    add: tuple[str, ...]
    drop: tuple[str, ...]
    steward: str = ""
    """The node that carries it out."""
    switched: bool = False
    """Whether consumers read the new members: from then on it only goes forward."""


class Deployment(msgspec.Struct, frozen=True, array_like=True):
    """An application as it runs."""

    application: str
    version: int
    definition: str
    """The digest of what it computes."""
    sets: tuple[ReplicaSet, ...]
    sources: tuple[tuple[str, str], ...]
    """The node of each source's proxy."""
    change: Change | None = None
    withdrawn: bool = False
    sinks: tuple[tuple[str, str], ...] = ()
    """The node of each sink."""
    avoids: tuple[str, ...] = ()
    """The nodes that are being drained: what of it runs there is to move."""

    @property
    def nodes(self) -> set[str]:
        """The nodes that run a part of it."""
        members = {member.node for one in self.sets for member in one.members}
        return members | {node for _, node in (*self.sources, *self.sinks)}

    def set_of(self, fragment: str) -> ReplicaSet:
        """The replica set of a fragment."""
        for one in self.sets:
            if one.fragment == fragment:
                return one
        known = [one.fragment for one in self.sets]
        raise unknown_name(fragment, known, f"is no fragment of '{self.application}'")

    def on(self, node: str) -> tuple[tuple[str, Member], ...]:
        """The fragments that a node runs, and its member of each."""
        found = ((one.fragment, one.on(node)) for one in self.sets)
        return tuple((fragment, member) for fragment, member in found if member is not None)

    def machines(self, role: MemberRole) -> dict[str, tuple[str, ...]]:
        """The machines with a role, by fragment."""
        return {one.fragment: one.machines(role) for one in self.sets}


Edit = Callable[[Deployment], Deployment]


def submitted(
    application: str,
    definition: str,
    replicas: Mapping[str, Iterable[str]],
    sources: Mapping[str, str],
    sinks: Mapping[str, str] = MappingProxyType({}),
) -> Deployment:
    """The first version of an application's deployment."""
    sets = []
    for fragment, nodes in replicas.items():
        members = tuple(Member(node) for node in nodes)
        if not members:
            raise UserError("has no replica", name=fragment)
        if len({m.node for m in members}) < len(members):
            raise UserError("has two replicas on one node", name=fragment)
        sets.append(ReplicaSet(fragment, members, tuple((m.node, 1) for m in members)))
    homes = tuple(sorted(sources.items())), tuple(sorted(sinks.items()))
    return Deployment(application, 1, definition, tuple(sets), homes[0], sinks=homes[1])


def absent(application: str) -> Deployment:
    """The deployment of an application that was never submitted."""
    return Deployment(application, 0, "", (), (), withdrawn=True)


def submit(wanted: Deployment) -> Edit:
    """An edit that lets an application run, if none of its name does."""

    def edit(deployment: Deployment) -> Deployment:
        if not deployment.withdrawn:
            raise UserError("runs already: withdraw it first", name=deployment.application)
        first = deployment.version + 1
        # Replicas of before may still be on their way out: the new ones have names of their own.
        known = {s.fragment: dict(s.incarnations) for s in deployment.sets}
        sets = tuple(_renewed(one, known.get(one.fragment, {})) for one in wanted.sets)
        return replace(wanted, version=first, sets=sets)

    return edit


def _renewed(one: ReplicaSet, known: Mapping[str, int]) -> ReplicaSet:
    """A first replica set whose members have incarnations that none has had before."""
    members = tuple(replace(m, incarnation=known.get(m.node, 0)) for m in one.members)
    counted = {**known, **{m.node: m.incarnation + 1 for m in members}}
    return replace(one, members=members, incarnations=tuple(sorted(counted.items())))


def from_cluster(application: str, cluster: Cluster) -> Deployment:
    """The deployment that a cluster file says."""
    return submitted(application, "", cluster.replicas, cluster.sources)


def begin(
    deployment: Deployment,
    fragment: str,
    *,
    add: Sequence[str] = (),
    drop: Iterable[str] = (),
    steward: str = "",
) -> Deployment:
    """Begin to add replicas of a fragment, to drop some, or both: those that are added join."""
    _refuse_other(deployment)
    for node in add:
        if node in deployment.avoids:
            raise UserError(f"cannot run on '{node}', which is being drained", name=fragment)
    one = deployment.set_of(fragment)
    new, old = tuple(dict.fromkeys(add)), tuple(dict.fromkeys(drop))
    if not new and not old:
        raise UserError("neither gains nor loses a replica", name=fragment)
    for node in new:
        if one.on(node) is not None:
            raise UserError(f"has a replica on '{node}' already", name=fragment)
    for node in old:
        if one.on(node) is None:
            places = [m.node for m in one.members]
            raise unknown_name(node, places, f"has no replica of '{fragment}'")
    if len(one.full) + len(new) == len(old):
        raise UserError("would have no replica left", name=fragment)
    next_of = dict(one.incarnations)
    joined = tuple(Member(node, next_of.get(node, 0), MemberRole.JOINING) for node in new)
    counted = next_of | {m.node: m.incarnation + 1 for m in joined}
    changed = ReplicaSet(fragment, one.members + joined, tuple(sorted(counted.items())))
    change = Change(deployment.version + 1, fragment, new, old, steward)
    return _next(deployment, changed, change)


def switch(deployment: Deployment) -> Deployment:
    """Let consumers read the members that have joined, and no longer those that leave."""
    change = _pending(deployment)
    if change.switched:
        raise UserError("has switched already", name=change.fragment)
    one = deployment.set_of(change.fragment)
    members = tuple(_switched(m, change) for m in one.members)
    if not any(m.role is MemberRole.FULL for m in members):
        raise UserError("would have no full replica", name=change.fragment)
    return _next(deployment, replace(one, members=members), replace(change, switched=True))


def _switched(member: Member, change: Change) -> Member:
    if member.node in change.drop:
        return replace(member, role=MemberRole.LEAVING)
    return replace(member, role=MemberRole.FULL)


def finish(deployment: Deployment) -> Deployment:
    """Remove the members that leave, which ends the change."""
    change = _pending(deployment)
    if not change.switched:
        raise UserError("is read by nobody yet", name=change.fragment)
    return _without(deployment, change, MemberRole.LEAVING)


def cancel(deployment: Deployment) -> Deployment:
    """Remove the members that were joining, which ends the change."""
    change = _pending(deployment)
    if change.switched:
        raise UserError("has switched, and only goes forward", name=change.fragment)
    return _without(deployment, change, MemberRole.JOINING)


def take_over(deployment: Deployment, steward: str) -> Deployment:
    """Let another node carry out the pending change."""
    change = _pending(deployment)
    one = deployment.set_of(change.fragment)
    return _next(deployment, one, replace(change, steward=steward))


def avoid(node: str) -> Edit:
    """An edit by which an application is to have nothing on a node; what is there moves."""

    def edit(deployment: Deployment) -> Deployment:
        if node in deployment.avoids:
            raise UserError("is being drained already", name=node)
        avoids = tuple(sorted((*deployment.avoids, node)))
        return replace(deployment, version=deployment.version + 1, avoids=avoids)

    return edit


def permit(node: str) -> Edit:
    """An edit by which an application may run on a node again."""

    def edit(deployment: Deployment) -> Deployment:
        if node not in deployment.avoids:
            raise UserError("is not being drained", name=node)
        avoids = tuple(one for one in deployment.avoids if one != node)
        return replace(deployment, version=deployment.version + 1, avoids=avoids)

    return edit


def withdraw(deployment: Deployment) -> Deployment:
    """Stop the application for good."""
    if deployment.withdrawn:
        raise UserError("was withdrawn already", name=deployment.application)
    empty = tuple(replace(one, members=()) for one in deployment.sets)
    version = deployment.version + 1
    return replace(deployment, version=version, sets=empty, change=None, withdrawn=True)


def _refuse_other(deployment: Deployment) -> None:
    if deployment.withdrawn:
        raise UserError("was withdrawn", name=deployment.application)
    if deployment.change is not None:
        raise UserError(
            f"is changing already: '{deployment.change.fragment}' (change"
            f" {deployment.change.number}); wait for it, or cancel it",
            name=deployment.application,
        )


def _pending(deployment: Deployment) -> Change:
    if deployment.change is None:
        raise UserError("has no pending change", name=deployment.application)
    return deployment.change


def _without(deployment: Deployment, change: Change, role: MemberRole) -> Deployment:
    one = deployment.set_of(change.fragment)
    members = tuple(m for m in one.members if m.role is not role)
    return _next(deployment, replace(one, members=members), None)


def _next(deployment: Deployment, changed: ReplicaSet, change: Change | None) -> Deployment:
    sets = tuple(changed if s.fragment == changed.fragment else s for s in deployment.sets)
    return replace(deployment, version=deployment.version + 1, sets=sets, change=change)
