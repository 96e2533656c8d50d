"""Events and effects of a steward."""

from __future__ import annotations

import msgspec

from australis.deployment.deployed import Deployment, Edit
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Effect, Event
from australis.protocols.change.messages import OutputProgress


class ChangeOptions(msgspec.Struct, frozen=True):
    """The times of a steward."""

    look_us: int = 200 * MILLISECOND
    """The interval at which it looks after the changes that it carries out."""
    gossip_us: int = SECOND
    """The interval at which it tells a node by chance what it knows."""
    calm_looks: int = 3
    """How often in a row joining replicas must be found ready."""
    near_buckets: int = 2
    """A replica that is so close to the end of the longest log has caught up."""
    join_us: int = 60 * SECOND
    """A change whose replicas are not ready by then is cancelled."""
    retry_us: int = 2 * SECOND
    """The interval at which it tries again to empty a node that is being drained."""
    silent_us: int = 5 * SECOND
    """A steward that has not been heard of for so long is replaced."""


class Started(Event, frozen=True):
    """A steward starts with the deployments that its disk remembers."""

    deployments: tuple[Deployment, ...]
    nodes: tuple[str, ...]
    """The stewards of all nodes, itself among them."""
    kinds: tuple[str, ...] = ()
    """What kind of node each of them is, in the same order: a replica moves between two of a kind."""


class ChangeWanted(Event, frozen=True):
    """A user wants to add replicas of a fragment, to drop some, or both."""

    tag: str
    application: str
    fragment: str
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SubmitWanted(Event, frozen=True):
    """A user wants an application to run."""

    tag: str
    deployment: Deployment


class WithdrawWanted(Event, frozen=True):
    """A user wants an application to stop for good."""

    tag: str
    application: str


class DrainWanted(Event, frozen=True):
    """A user wants an application to leave a node, or to use it again."""

    tag: str
    application: str
    node: str
    drained: bool = True


class CancelWanted(Event, frozen=True):
    """A user wants the pending change of an application to end where it began."""

    tag: str
    application: str


class EditDecided(Event, frozen=True):
    """The register has applied an edit, or was read."""

    tag: str
    deployment: Deployment


class EditFailed(Event, frozen=True):
    """An edit was refused (then `unknown` is false), or its outcome is not known."""

    tag: str
    why: str
    unknown: bool = False


class ProgressFound(Event, frozen=True):
    """The world answers `FindProgress`."""

    application: str
    fragment: str
    to: str
    machine: str
    version: int
    outputs: tuple[OutputProgress, ...]


class SubmitEdit(Effect, frozen=True):
    """Have an edit decided by an application's register; without one read it."""

    tag: str
    application: str
    edit: Edit | None


class Adopt(Effect, frozen=True):
    """Remember a newer deployment; open, rewire and close this node's machines by it."""

    deployment: Deployment


class FindProgress(Effect, frozen=True):
    """Find out how far this node's replica of a fragment is; report `ProgressFound`."""

    application: str
    fragment: str
    to: str
    """The steward that asked."""


class TellChange(Effect, frozen=True):
    """Tell a user what has become of what was wanted."""

    tag: str
    outcome: str
    """begun, refused, unknown, switched, done or cancelled."""
    why: str = ""
    deployment: Deployment | None = None
