"""Changes of a running cluster, as an operator asks for them and follows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from australis.deployment.deployed import Change, Deployment, Member, MemberRole
from australis.kernel.errors import Stopped, UserError
from australis.runtime.admin import AdminClient, NoAnswer

LOOK_S = 0.1
BEGIN_TIMEOUT_S = 40.0
"""The longest time that a node takes to say whether a change has begun."""
END_TIMEOUT_S = 600.0
JOINING, LEAVING = "copying and catching up", "switching readers"


@dataclass(frozen=True)
class Step:
    """A phase of a change that has begun."""

    at_s: float
    """When, in seconds since the change was asked for."""
    phase: str
    deployment: Deployment


class Changes:
    """The changes of one cluster."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def newest(self) -> Deployment:
        """The newest deployment that a node knows."""
        answers = self._admin.ask_all(self._admin.cluster.nodes, "status").values()
        known = [
            msgspec.convert(answer["deployment"], Deployment)
            for answer in answers
            if answer is not None and "deployment" in answer
        ]
        if not known:
            raise NoAnswer(
                "has no node that answers: `australis up` starts them",
                name=self._admin.cluster.name,
            )
        return max(known, key=lambda one: one.version)

    def carry_out(
        self, fragment: str, add: tuple[str, ...], drop: tuple[str, ...]
    ) -> Iterator[Step]:
        """Begin a change and follow it to its end; the last step says `done` or `cancelled`."""
        began = time.monotonic()
        begun = self._begin(fragment, add, drop)
        number, said = int(begun["change"]), ""
        while time.monotonic() - began < END_TIMEOUT_S:
            deployment = self.newest()
            phase = phase_of(deployment, number, fragment, add, drop)
            if phase and phase != said:
                said = phase
                yield Step(time.monotonic() - began, phase, deployment)
            if phase in ("done", "cancelled"):
                return
            time.sleep(LOOK_S)
        raise Stopped(f"change {number} of '{fragment}' goes on: see `australis status`")

    def _begin(self, fragment: str, add: tuple[str, ...], drop: tuple[str, ...]) -> dict[str, int]:
        what = {"fragment": fragment, "add": list(add), "drop": list(drop)}
        silent: NoAnswer | None = None
        for node in self._admin.cluster.nodes:
            if not self._admin.says_hello(node):
                continue
            try:
                begun: dict[str, int] = self._admin.ask(node, "change", what, BEGIN_TIMEOUT_S)
            except NoAnswer as error:
                silent = error
            else:
                return begun
        raise silent or NoAnswer(
            "has no node that answers: `australis up` starts them", name=self._admin.cluster.name
        )


def phase_of(
    deployment: Deployment, number: int, fragment: str, add: tuple[str, ...], drop: tuple[str, ...]
) -> str:
    """The phase of a change by its number; empty while the deployment is an older one."""
    change: Change | None = deployment.change
    if deployment.version < number:
        return ""
    if change is not None and change.number == number:
        return LEAVING if change.switched else JOINING
    there = {member.node for member in deployment.set_of(fragment).members}
    return "done" if there >= {*add} and not there & {*drop} else "cancelled"


def to_have(
    deployment: Deployment, fragment: str, wanted: int, nodes: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes to add and to drop so that a fragment has so many replicas.

    Nodes that run least get new ones; those that run most lose theirs.
    """
    members = deployment.set_of(fragment).members
    there = [m.node for m in members if m.role is not MemberRole.LEAVING]
    runs = {node: len(deployment.on(node)) for node in nodes}
    free = sorted((n for n in nodes if n not in there), key=lambda n: (runs[n], nodes.index(n)))
    if wanted > len(there) + len(free):
        most = len(there) + len(free)
        raise UserError(f"can have {most} replicas at most, one on each node", name=fragment)
    if wanted >= len(there):
        return tuple(free[: wanted - len(there)]), ()
    ranked = sorted(there, key=lambda n: (-runs.get(n, 0), there.index(n)))
    return (), tuple(ranked[: len(there) - wanted])


def places(members: tuple[Member, ...]) -> str:
    """Where the members of a replica set are, in words."""
    return ", ".join(m.node for m in members) or "nowhere"
