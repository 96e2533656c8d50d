"""Changes of a running cluster, as an operator asks for them and follows them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from australis.deployment.check import check_name
from australis.deployment.definition import Definition
from australis.deployment.deployed import Change, Deployment, Member, MemberRole
from australis.deployment.placement import first_deployment
from australis.diagram.diagram_file import dump
from australis.diagram.model import Diagram, Spark
from australis.kernel.errors import Stopped, UserError, unknown_name
from australis.runtime.admin import AdminClient, NoAnswer
from australis.runtime.epoch import choose_epoch

LOOK_S = 0.1
BEGIN_TIMEOUT_S = 40.0
"""The longest time that a node takes to say whether a change has begun."""
END_TIMEOUT_S = 600.0
SUBMIT_TIMEOUT_S = 90.0
"""The longest time that a node takes to check a diagram and have it decided, which may include the
start of Spark."""
JOINING, LEAVING = "copying and catching up", "switching readers"


@dataclass(frozen=True)
class Step:
    """A phase of a change that has begun."""

    at_s: float
    """When, in seconds since the change was asked for."""
    phase: str
    deployment: Deployment


@dataclass(frozen=True)
class Left:
    """What is left on a node that is being drained."""

    replicas: tuple[str, ...]
    others: tuple[str, ...]
    """Sources and sinks, which do not move."""


class Changes:
    """The applications of one cluster and their changes, as an operator sees them."""

    def __init__(self, admin: AdminClient, base: Path) -> None:
        self._admin = admin
        self._base = base

    @property
    def nodes(self) -> list[str]:
        """The nodes of the cluster."""
        return list(self._admin.cluster.nodes)

    # --- what there is ------------------------------------------------------------------------

    def applications(self) -> dict[str, Deployment]:
        """The newest deployment of each submitted application that any node knows."""
        return {name: one for name, one in self._deployments().items() if name}

    def listed(self) -> dict[str, Any]:
        """What runs where, by application, that of the cluster file first."""
        return {one.application: _told(one) for one in self._deployments().values() if one.sets}

    def _deployments(self) -> dict[str, Deployment]:
        """The newest deployments, that of the cluster file's application without a name."""
        answers = self._admin.ask_all(self._admin.cluster.nodes, "status").values()
        found: dict[str, Deployment] = {}
        for answer in answers:
            if answer is None or "deployment" not in answer:
                continue
            parts = {"": answer, **answer["applications"]}
            for name, part in parts.items():
                one = msgspec.convert(part["deployment"], Deployment)
                if name not in found or one.version > found[name].version:
                    found[name] = one
        if not found:
            raise NoAnswer(
                "has no node that answers: `australis up` starts them",
                name=self._admin.cluster.name,
            )
        return found

    def newest(self, application: str = "") -> Deployment:
        """The newest deployment of an application that a node knows."""
        known = self._deployments()
        if application not in known:
            names = [name for name in known if name]
            sentence = "is not an application of this cluster"
            raise unknown_name(application, names, sentence, heading="applications")
        return known[application]

    def part(self, name: str) -> tuple[str, str]:
        """The application and the fragment of a name such as `app.fragment`."""
        application, dot, fragment = name.partition(".")
        return (application, fragment) if dot else ("", name)

    # --- applications -------------------------------------------------------------------------

    def submit(
        self,
        diagram: Diagram,
        folder: Path,
        text: str = "",
        *,
        name: str | None = None,
        replicas: int | None = None,
        on: Sequence[str] = (),
        places: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        max_delay_us: int | None = None,
    ) -> Deployment:
        """Let a diagram run whose relative paths begin at a folder; returns once it was decided.

        The `text` of its file, if it is YAML, lets nodes name the lines of mistakes.
        """
        application = name or diagram.name
        check_name(application)
        cluster, now_us = self._admin.cluster, time.time_ns() // 1000
        epoch_us = choose_epoch(diagram, folder, now_us)
        code = code_of(diagram, folder)
        below = os.path.relpath(folder, self._base)
        file = diagram.place.file if diagram.place is not None else f"{application}.yaml"
        others = self._deployments()
        avoids = {node for one in others.values() for node in one.avoids}
        if application in others:
            raise UserError("runs already: withdraw it first", name=application)
        wanted = first_deployment(
            *(application, cluster, diagram),
            replicas=replicas,
            on=on or [node for node in self.nodes if node not in avoids],
            places=places,
            others=others.values(),
        )  # fmt: skip
        definition = Definition(
            application, text or dump(diagram), file, epoch_us, now_us, below, code,
            max_delay_us=max_delay_us,
        )  # fmt: skip
        definition.check()
        wanted = msgspec.structs.replace(wanted, avoids=tuple(sorted(avoids)))
        node = self._first_that_answers([one.node for s in wanted.sets for one in s.members])
        decided = self._admin.ask(node, "submit", (definition, wanted), SUBMIT_TIMEOUT_S)
        return msgspec.structs.replace(wanted, version=decided["version"])

    def withdraw(self, application: str) -> int:
        """Stop an application for good; returns the version with which it ends."""
        self.newest(application)
        node = self._first_that_answers(self.nodes)
        decided = self._admin.ask(node, "withdraw", application, BEGIN_TIMEOUT_S)
        return int(decided["version"])

    def is_open(self, application: str) -> bool:
        """Whether all nodes that shall run parts of an application do; an error says why not."""
        deployment = self.newest(application)
        answers = self._admin.ask_all(deployment.nodes, "status")
        parts = {
            node: answer["applications"].get(application)
            for node, answer in answers.items()
            if answer is not None
        }
        for node, part in parts.items():
            if part is not None and part["failed"] is not None:
                raise Stopped(
                    f"'{application}' cannot run on '{node}', which tries again: {part['failed']};"
                    f" `australis withdraw` takes it back"
                )
        return all(part is not None and part["here"] for part in parts.values())

    def is_gone(self, application: str) -> bool:
        """Whether no node that answers runs parts of an application any more."""
        answers = self._admin.ask_all(self.nodes, "status").values()
        return not any(a is not None and application in a["applications"] for a in answers)

    # --- nodes --------------------------------------------------------------------------------

    def drain(self, node: str, *, drained: bool = True) -> list[str]:
        """Have all applications leave a node, or let them use it again; returns those that changed.

        The cluster moves one replica after the other.
        """
        if node not in self.nodes:
            raise unknown_name(node, self.nodes, "is not a node of this cluster", heading="nodes")
        changed = []
        for name, deployment in self._deployments().items():
            if (node in deployment.avoids) is drained or deployment.withdrawn:
                continue
            asked = self._first_that_answers(self.nodes)
            what = {"application": name, "node": node, "drained": drained}
            self._admin.ask(asked, "drain", what, BEGIN_TIMEOUT_S)
            changed.append(name)
        if not changed:
            said = "is being drained already" if drained else "is not being drained"
            raise UserError(said, name=node)
        return changed

    def left_on(self, node: str) -> Left:
        """What of all applications is on a node still."""
        replicas, others = [], []
        for name, one in self._deployments().items():
            prefix = f"{name}." if name else ""
            replicas += [f"{prefix}{fragment}" for fragment, _ in one.on(node)]
            others += [f"source {prefix}{s}" for s, at in one.sources if at == node]
            others += [f"sink {prefix}{s}" for s, at in one.sinks if at == node]
        return Left(tuple(replicas), tuple(others))

    # --- changes of replica sets --------------------------------------------------------------

    def carry_out(
        self, fragment: str, add: tuple[str, ...], drop: tuple[str, ...], application: str = ""
    ) -> Iterator[Step]:
        """Begin a change and follow it to its end; the last step says `done` or `cancelled`."""
        began = time.monotonic()
        begun = self._begin(application, fragment, add, drop)
        number, said = int(begun["change"]), ""
        while time.monotonic() - began < END_TIMEOUT_S:
            deployment = self.newest(application)
            phase = phase_of(deployment, number, fragment, add, drop)
            if phase and phase != said:
                said = phase
                yield Step(time.monotonic() - began, phase, deployment)
            if phase in ("done", "cancelled"):
                return
            time.sleep(LOOK_S)
        raise Stopped(f"change {number} of '{fragment}' goes on: see `australis status`")

    def _begin(
        self, application: str, fragment: str, add: tuple[str, ...], drop: tuple[str, ...]
    ) -> dict[str, int]:
        what = {
            "application": application,
            "fragment": fragment,
            "add": list(add),
            "drop": list(drop),
        }
        node = self._first_that_answers(self.nodes)
        begun: dict[str, int] = self._admin.ask(node, "change", what, BEGIN_TIMEOUT_S)
        return begun

    def _first_that_answers(self, nodes: Iterable[str]) -> str:
        for node in dict.fromkeys(nodes):
            if self._admin.says_hello(node):
                return node
        raise NoAnswer(
            "has no node that answers: `australis up` starts them", name=self._admin.cluster.name
        )


def _told(one: Deployment) -> dict[str, Any]:
    """A deployment in words."""
    change = one.change
    phase = None if change is None else (LEAVING if change.switched else JOINING)
    return {
        "version": one.version,
        "definition": one.definition,
        "fragments": {
            s.fragment: [
                {"node": m.node, "role": m.role.value, "incarnation": m.incarnation}
                for m in s.members
            ]
            for s in one.sets
        },
        "sources": dict(one.sources),
        "sinks": dict(one.sinks),
        "change": None
        if change is None
        else {
            "number": change.number,
            "fragment": change.fragment,
            "add": list(change.add),
            "drop": list(change.drop),
            "steward": change.steward,
            "phase": phase,
        },
    }


def code_of(diagram: Diagram, folder: Path) -> dict[str, bytes]:
    """The files of the user's functions, by the names by which a diagram refers to them."""
    code: dict[str, bytes] = {}
    for one in diagram.operators:
        file = one.function.rpartition(":")[0] if isinstance(one, Spark) else ""
        if not file.endswith(".py"):
            continue
        try:
            code[file] = (folder / file).read_bytes()
        except OSError as error:
            sentence = f"names the file {folder / file}, which cannot be read: {error.strerror}"
            raise UserError(sentence, name=one.name, place=one.place) from None
    return code


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
    may = [node for node in nodes if node not in deployment.avoids]
    free = sorted((n for n in may if n not in there), key=lambda n: (runs[n], nodes.index(n)))
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
