"""The families of the messages of registers and of changes of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from australis.deployment.cluster import node_of_machine, steward_machine
from australis.deployment.deployed import Change, Deployment, Member, ReplicaSet
from australis.kernel.machine import Message
from australis.protocols.change.messages import (
    Deployed,
    OutputProgress,
    Progress,
    ProgressRequest,
    ReaderProgress,
    Versions,
)
from australis.protocols.register.messages import (
    Accepted,
    Ballot,
    Conflict,
    Install,
    Installed,
    Keepers,
    Operation,
    Outdated,
    Prepare,
    Promise,
    Propose,
    Record,
    Seat,
)
from australis.runtime.node.wire import Count, Family, Name, WireError, many, strict
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

REGISTER_VERSION = 1
CHANGE_VERSION = 1
MAX_VALUE_BYTES = 1 << 20
"""The largest size of a register's value."""
MAX_KEEPERS = 16
MAX_NAMES = 256

_ballot = strict(Ballot, counter=Count, incarnation=Count)
_seat = strict(Seat)
_keepers = strict(
    Keepers, epoch=Count, seats=many(_seat, MAX_KEEPERS), joining=many(_seat, MAX_KEEPERS)
)
_record = strict(
    Record,
    version=Count,
    value=Annotated[bytes, Meta(max_length=MAX_VALUE_BYTES)],
    newest=many(tuple[Name, strict(Operation, incarnation=Count, number=Count)]),  # type: ignore[misc]
)


def _of_registers(
    message: Message, sender: str, schemas: Mapping[str, Schema], buckets: Buckets
) -> Message:
    """Refuse messages in the name of another proposer or keeper."""
    match message:
        case Prepare(ballot=ballot) | Propose(ballot=ballot) if ballot.proposer != sender:
            raise WireError("a ballot of another proposer than its sender")
        case Promise(seat=seat) | Accepted(seat=seat) | Installed(seat=seat):
            if seat.node != sender:
                raise WireError("the seat of another keeper than its sender")
    return message


REGISTER = Family(
    "register",
    REGISTER_VERSION,
    {
        Prepare: strict(Prepare, ballot=_ballot, keepers=_keepers),
        Promise: strict(Promise, seat=_seat, ballot=_ballot, accepted=_ballot, record=_record),
        Propose: strict(Propose, ballot=_ballot, keepers=_keepers, record=_record),
        Accepted: strict(Accepted, seat=_seat, ballot=_ballot),
        Conflict: strict(Conflict, ballot=_ballot, promised=_ballot),
        Outdated: strict(Outdated, ballot=_ballot, keepers=_keepers),
        Install: strict(Install, keepers=_keepers),
        Installed: strict(Installed, seat=_seat, keepers=_keepers, registers=many(Name)),
    },
    _of_registers,
)

_member = strict(Member, incarnation=Count)
_set = strict(
    ReplicaSet,
    members=many(_member, MAX_NAMES),
    incarnations=many(tuple[Name, Count]),
)
_change = strict(Change, number=Count, add=many(Name, MAX_NAMES), drop=many(Name, MAX_NAMES))
_deployment = strict(
    Deployment,
    version=Count,
    sets=many(_set),
    sources=many(tuple[Name, Name]),
    change=_change | None,
    sinks=many(tuple[Name, Name]),
    avoids=many(Name),
)
_reader = strict(ReaderProgress)
_output = strict(OutputProgress, readers=many(_reader))


def _of_changes(
    message: Message, sender: str, schemas: Mapping[str, Schema], buckets: Buckets
) -> Message:
    """Refuse a report about a machine of another node than its sender's."""
    about = message.machine if isinstance(message, Progress) else ""
    if about and sender != steward_machine(node_of_machine(about)):
        raise WireError("a report about a machine of another node")
    return message


CHANGE = Family(
    "change",
    CHANGE_VERSION,
    {
        Versions: strict(Versions, known=many(tuple[Name, Count]), asks=many(Name)),
        Deployed: strict(Deployed, deployment=_deployment),
        ProgressRequest: strict(ProgressRequest, version=Count),
        Progress: strict(Progress, version=Count, outputs=many(_output)),
    },
    _of_changes,
)
