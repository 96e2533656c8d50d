"""The services of a running node: its keeper, its proposer and its steward, with their files.

control/keeper           what the keeper has promised and accepted, and the name of its disk
control/keepers          the set of keepers, as the proposer knows it
control/deployment-NAME  the newest deployment that is known, a file for each application
control/definitions/ID   what an application computes

A keeper that has lost its file begins with another name of its disk, which has no vote: what it had
promised is not known any more.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from australis.deployment.cluster import keeper_machine, proposer_machine, steward_machine
from australis.deployment.definition import Definition
from australis.deployment.definition import read as read_definition
from australis.deployment.deployed import Deployment, absent
from australis.kernel.errors import UserError
from australis.kernel.machine import Event
from australis.node.control import KEEPERS_TAG, KeeperHost, ProposerHost, StewardHost
from australis.node.machine import NodeMachine
from australis.node.ports import NodePort
from australis.protocols.change.events import (
    ChangeOptions,
    ChangeWanted,
    DrainWanted,
    FindProgress,
    SubmitWanted,
    TellChange,
    WithdrawWanted,
)
from australis.protocols.change.events import Started as StewardStarted
from australis.protocols.change.steward import StewardMachine
from australis.protocols.register.events import KeepersChosen, Kept, RegisterOptions, Started
from australis.protocols.register.keeper import KeeperMachine
from australis.protocols.register.messages import Keepers, Seat
from australis.protocols.register.proposer import ProposerMachine
from australis.runtime.files import TEMPORARY, make_directory
from australis.runtime.node.driver import Driver
from australis.runtime.node.events import INFO, WARNING, Tell
from australis.runtime.sealed import read_sealed, write_sealed

ANSWER_S = 15.0
"""The longest time that a user waits to hear whether a change has begun."""
CHOOSE_S = 3.0
"""The interval at which a node asks for the first set of keepers, until there is one."""
KEPT_REMEDY = "remove it, and this keeper has no vote until keepers are chosen again"
KNOWN_REMEDY = "remove it, and the node asks the others"


class WantedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator asks for: replicas of a fragment that are added, dropped, or both."""

    fragment: str
    application: str = ""
    """The application; empty: that of the cluster file."""
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class WantedDrain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator asks for: an application that leaves a node, or uses it again."""

    application: str
    node: str
    drained: bool = True


class _Memory(msgspec.Struct):
    """What a keeper's disk remembers."""

    disk: str
    keepers: Keepers = Keepers()
    kept: dict[str, Kept] = {}


class Control:
    """The services of one node."""

    def __init__(
        self,
        node: str,
        nodes: Mapping[str, str],
        keepers: tuple[str, ...],
        directory: Path,
        first: Deployment,
        driver: Driver,
        tell: Tell,
        on_adopt: Callable[[Deployment], None],
        on_find: Callable[[FindProgress], None],
    ) -> None:
        """The services of a node; `nodes` have the engine of each, and `first` is the deployment of
        the cluster file."""
        self._node = node
        self._nodes = nodes
        self._keepers = keepers
        self._directory = directory
        self._first = first
        self._driver = driver
        self._tell = tell
        self._on_adopt = on_adopt
        self.find_progress = on_find
        self._memory = _Memory("")
        self._asked: dict[str, tuple[threading.Event, list[TellChange]]] = {}
        self._has_keepers = threading.Event()
        self._timer: threading.Timer | None = None
        self.steward = steward_machine(node)
        self.proposer = proposer_machine(node)

    # --- starting -------------------------------------------------------------------------------

    def known(self) -> Deployment:
        """The newest deployment on the disk, else that of the cluster file."""
        found = self._read_deployment(self._path("deployment", self._first.application))
        return found or self._first

    def applications(self) -> list[Deployment]:
        """The newest deployments on the disk of all applications that were submitted."""
        home = self._path("deployment", self._first.application)
        files = sorted(self._directory.glob("deployment-*")) if self._directory.exists() else []
        others = [p for p in files if p != home and not p.name.endswith(TEMPORARY)]
        found = map(self._read_deployment, others)
        return [one for one in found if one is not None]

    def _read_deployment(self, path: Path) -> Deployment | None:
        data = read_sealed(path, "deployment", KNOWN_REMEDY)
        return None if data is None else msgspec.msgpack.decode(data, type=Deployment)

    def _first_of(self, application: str) -> Deployment:
        mine = application == self._first.application
        return self._first if mine else absent(application)

    def open(self, incarnation: int, machines: NodeMachine, node: NodePort) -> dict[str, Event]:
        """Open the services; returns the first event of each."""
        make_directory(self._directory)
        first: dict[str, Event] = {}
        kept = self._read_keepers("keepers")
        if kept.epoch:
            self._has_keepers.set()
        if self._node in self._keepers:
            self._memory = memory = self._remembered()
            seat = Seat(keeper_machine(self._node), memory.disk)
            keeper = KeeperMachine(seat, memory.keepers, memory.kept)
            machines.open(KeeperHost(seat.node, keeper, node, self))
        rng = Random(f"{self._node} {incarnation}")
        proposer = ProposerHost(
            self.proposer,
            ProposerMachine(self.proposer, RegisterOptions(), rng),
            *(node, self, self.steward, self._first_of),
        )
        machines.open(proposer)
        first[self.proposer] = Started(incarnation, kept)
        steward = StewardHost(
            self.steward,
            StewardMachine(self.steward, ChangeOptions(), rng),
            *(node, self, proposer),
        )
        machines.open(steward)
        stewards = tuple(map(steward_machine, self._nodes))
        kinds = tuple(self._nodes.values())
        known = self.known(), *self.applications()
        first[self.steward] = StewardStarted(known, stewards, kinds)
        return first

    def start(self) -> None:
        """Ask for the first set of keepers until this node knows one."""
        if not self._path("keepers").exists():
            names = tuple(map(keeper_machine, self._keepers))
            self._driver.post(self.proposer, KeepersChosen(KEEPERS_TAG, names))
            self._timer = threading.Timer(CHOOSE_S, self.start)
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Stop asking."""
        if self._timer is not None:
            self._timer.cancel()

    # --- the port of the services -------------------------------------------------------------------

    def keep(self, register: str, kept: Kept) -> None:
        """Write what the keeper promises and accepts."""
        self._memory.kept[register] = kept
        self._write_memory()

    def keep_keepers(self, keeper: bool, keepers: Keepers) -> None:
        """Write a set of keepers."""
        if keeper:
            self._memory.keepers = keepers
            self._write_memory()
        else:
            write_sealed(self._path("keepers"), "keepers", msgspec.msgpack.encode(keepers))
            self._has_keepers.set()

    def _write_memory(self) -> None:
        write_sealed(self._path("keeper"), "keeper", msgspec.msgpack.encode(self._memory))

    def adopt(self, deployment: Deployment) -> None:
        """Write a deployment, and let the node follow it."""
        data = msgspec.msgpack.encode(deployment)
        write_sealed(self._path("deployment", deployment.application), "deployment", data)
        self._on_adopt(deployment)

    def tell_change(self, effect: TellChange) -> None:
        """Answer a user who waits, and record it."""
        asked = self._asked.get(effect.tag)
        if asked is not None:
            asked[1].append(effect)
            asked[0].set()
        level = WARNING if effect.outcome in ("refused", "unknown") else INFO
        self._tell(
            "change", level=level, kind=effect.outcome, outcome=effect.outcome, why=effect.why
        )

    def post(self, machine: str, event: Event) -> None:
        """Queue an event for a machine of this node."""
        self._driver.post(machine, event, self._driver.entry)

    # --- users --------------------------------------------------------------------------------------

    def want(
        self, application: str, fragment: str, add: tuple[str, ...], drop: tuple[str, ...]
    ) -> dict[str, Any]:
        """Begin a change for a user; returns what was begun, or raises a `UserError`."""
        tag = secrets.token_hex(8)
        told = self._ask(tag, ChangeWanted(tag, application, fragment, add, drop), fragment)
        assert told.deployment is not None
        assert told.deployment.change is not None
        return {"change": told.deployment.change.number, "version": told.deployment.version}

    def submit(self, deployment: Deployment) -> dict[str, Any]:
        """Let an application run whose definition a majority of nodes has."""
        return self._decide(lambda tag: SubmitWanted(tag, deployment), deployment.application)

    def drain(self, application: str, node: str, *, drained: bool) -> dict[str, Any]:
        """Have an application leave a node, or use it again."""
        return self._decide(lambda tag: DrainWanted(tag, application, node, drained), node)

    def withdraw(self, application: str) -> dict[str, Any]:
        """Stop an application for good."""
        return self._decide(lambda tag: WithdrawWanted(tag, application), application)

    def _decide(self, wanted: Callable[[str], Event], application: str) -> dict[str, Any]:
        tag = secrets.token_hex(8)
        told = self._ask(tag, wanted(tag), application)
        assert told.deployment is not None
        return {"version": told.deployment.version}

    def _ask(self, tag: str, wanted: Event, name: str) -> TellChange:
        """Have a steward's first answer to what a user wants; a `UserError` if it is refused."""
        if not self._has_keepers.wait(ANSWER_S):
            keepers = ", ".join(self._keepers)
            raise UserError(
                f"has no keepers yet: a change needs all of {keepers} to answer once", name=name
            )
        waits = self._asked[tag] = threading.Event(), []
        try:
            self._driver.post(self.steward, wanted)
            if not waits[0].wait(ANSWER_S):
                raise UserError("has no answer yet: see `australis status`", name=name)
            (told, *_) = waits[1]
        finally:
            del self._asked[tag]
        if told.outcome not in ("begun", "done"):
            raise UserError(f"cannot be changed: {told.why}", name=name)
        return told

    # --- definitions ----------------------------------------------------------------------------

    def keep_definition(self, definition: Definition) -> None:
        """Write what an application computes."""
        path = self._definition(definition.digest)
        if not path.exists():
            make_directory(path.parent)
            write_sealed(path, "definition", msgspec.msgpack.encode(definition))

    def definition(self, digest: str) -> Definition | None:
        """What an application computes, if this node knows it."""
        data = read_sealed(self._definition(digest), "definition", KNOWN_REMEDY)
        return None if data is None else read_definition(data, digest)

    def _definition(self, digest: str) -> Path:
        if not digest.isalnum():
            raise UserError("is not a definition", name=digest)
        return self._directory / "definitions" / digest

    # --- files --------------------------------------------------------------------------------------

    def _path(self, name: str, of: str = "") -> Path:
        safe = "".join(c if c.isalnum() else f"%{ord(c):x}" for c in of)
        return self._directory / (f"{name}-{safe}" if of else name)

    def _remembered(self) -> _Memory:
        """What the keeper remembers; a new disk has a new name."""
        data = read_sealed(self._path("keeper"), "keeper", KEPT_REMEDY)
        if data is not None:
            return msgspec.msgpack.decode(data, type=_Memory)
        return _Memory(secrets.token_hex(8))

    def _read_keepers(self, name: str) -> Keepers:
        data = read_sealed(self._path(name), name, KNOWN_REMEDY)
        return Keepers() if data is None else msgspec.msgpack.decode(data, type=Keepers)
