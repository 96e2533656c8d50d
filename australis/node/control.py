"""The hosts of what runs on a node beside the machines of DPC: keeper, proposer and steward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from australis.deployment.deployed import Deployment, Edit
from australis.kernel.machine import Event
from australis.node.hosts import MachineHost, ReplicaHost
from australis.node.machine import NodeMachine
from australis.node.ports import NodePort
from australis.node.progress import progress_of
from australis.protocols.change.events import (
    Adopt,
    EditDecided,
    EditFailed,
    FindProgress,
    ProgressFound,
    SubmitEdit,
    TellChange,
)
from australis.protocols.change.messages import OutputProgress
from australis.protocols.change.steward import StewardMachine
from australis.protocols.register.events import (
    Kept,
    PersistKeepers,
    PersistKept,
    Submitted,
    TellDecided,
    TellRefused,
    TellUnknown,
    TellUnreachable,
)
from australis.protocols.register.keeper import KeeperMachine
from australis.protocols.register.messages import Keepers, Record
from australis.protocols.register.proposer import ProposerMachine

KEEPERS_TAG = "keepers"
"""The tag with which a node asks for the first set of keepers."""


class ControlPort(Protocol):
    """What a world does for the services of a node."""

    def keep(self, register: str, kept: Kept) -> None:
        """Make what a keeper promises and accepts durable before this returns."""
        ...

    def keep_keepers(self, keeper: bool, keepers: Keepers) -> None:
        """Make a set of keepers durable before this returns, for the keeper or the proposer."""
        ...

    def adopt(self, deployment: Deployment) -> None:
        """Make a deployment durable; open, rewire and close the machines of this node by it."""
        ...

    def tell_change(self, effect: TellChange) -> None:
        """Tell a user what has become of a change."""
        ...

    def find_progress(self, effect: FindProgress) -> None:
        """Find out how far a replica of this node is; reports `ProgressFound`."""
        ...

    def post(self, machine: str, event: Event) -> None:
        """Hand an event to a machine of this node, after the one that is being handled."""
        ...


class KeeperHost(MachineHost):
    """A keeper, which says nothing that is not on its disk."""

    machine: KeeperMachine

    def __init__(
        self, name: str, machine: KeeperMachine, node: NodePort, port: ControlPort
    ) -> None:
        super().__init__(name, machine, node)
        self.performers |= {
            PersistKept: lambda e: port.keep(e.register, e.kept),
            PersistKeepers: lambda e: port.keep_keepers(True, e.keepers),
        }


class ProposerHost(MachineHost):
    """A proposer, whose user is the steward of its node."""

    machine: ProposerMachine

    def __init__(
        self,
        name: str,
        machine: ProposerMachine,
        node: NodePort,
        port: ControlPort,
        steward: str,
        first: Callable[[str], Deployment],
    ) -> None:
        """A proposer; `first` gives the deployment of an application that was never changed."""
        super().__init__(name, machine, node)
        self._port = port
        self._steward = steward
        self._first = first
        self._applications: dict[str, str] = {}
        """The applications of the edits that are being decided, by tag."""
        self.performers |= {
            TellDecided: self._decided,
            TellRefused: lambda e: self._failed(e.tag, e.why),
            TellUnknown: lambda e: self._failed(
                e.tag, "no majority of the keepers answers: it may yet be decided", unknown=True
            ),
            TellUnreachable: lambda e: self._failed(
                e.tag, "no majority of the keepers answers: nothing was changed", unknown=True
            ),
        }

    def submit(self, effect: SubmitEdit) -> None:
        """Have an edit of a deployment decided."""
        self._applications[effect.tag] = effect.application
        edit = None if effect.edit is None else self.on_bytes(effect.application, effect.edit)
        self._port.post(self.name, Submitted(effect.tag, effect.application, edit))

    def on_bytes(self, application: str, edit: Edit) -> Callable[[bytes], bytes]:
        """An edit of a deployment as one of a register's value."""

        def applied(value: bytes) -> bytes:
            return msgspec.msgpack.encode(edit(self._decoded(application, value)))

        return applied

    def _decoded(self, application: str, value: bytes) -> Deployment:
        if not value:
            return self._first(application)
        return msgspec.msgpack.decode(value, type=Deployment)

    def _decided(self, e: TellDecided) -> None:
        if e.tag == KEEPERS_TAG:
            self._port.keep_keepers(False, self.machine.keepers)
            return
        record: Record = e.record
        deployment = self._decoded(self._applications.pop(e.tag), record.value)
        self._port.post(self._steward, EditDecided(e.tag, deployment))

    def _failed(self, tag: str, why: str, *, unknown: bool = False) -> None:
        if tag != KEEPERS_TAG:
            self._applications.pop(tag, None)
            self._port.post(self._steward, EditFailed(tag, why, unknown))


class StewardHost(MachineHost):
    """The steward of a node."""

    machine: StewardMachine

    def __init__(
        self,
        name: str,
        machine: StewardMachine,
        node: NodePort,
        port: ControlPort,
        proposer: ProposerHost,
    ) -> None:
        super().__init__(name, machine, node)
        self.performers |= {
            Adopt: lambda e: port.adopt(e.deployment),
            SubmitEdit: proposer.submit,
            FindProgress: port.find_progress,
            TellChange: port.tell_change,
        }


def found_progress(
    e: FindProgress, deployment: Deployment | None, here: str, machines: NodeMachine, now: int
) -> ProgressFound:
    """How far the replica of a fragment on a node is; called where its machines are driven."""
    member = None if deployment is None else deployment.set_of(e.fragment).on(here)
    name = "" if member is None else member.machine(e.fragment)
    host: Any = machines.hosts.get(name)
    version, outputs = 0, tuple[OutputProgress, ...]()
    if isinstance(host, ReplicaHost):
        version, outputs = host.machine.version, progress_of(host.machine, now)
    return ProgressFound(e.application, e.fragment, e.to, name, version, outputs)
