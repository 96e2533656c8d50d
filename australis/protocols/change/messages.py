"""Messages between stewards."""

from __future__ import annotations

import msgspec

from australis.deployment.deployed import Deployment
from australis.kernel.machine import Message


class Versions(Message, frozen=True, gc=False):
    """The versions that a node knows; who knows newer ones sends them, who knows older ones asks."""

    known: tuple[tuple[str, int], ...]
    """Applications with their versions."""
    asks: tuple[str, ...] = ()
    """Applications of which the newest version is wanted."""


class Deployed(Message, frozen=True, gc=False):
    """A deployment that was decided."""

    deployment: Deployment


class ReaderProgress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a replica knows of one consumer."""

    name: str
    follows: bool
    """Whether it wants anything from this replica."""
    acknowledged: int
    heard: bool
    """Whether it was heard lately."""
    awaited: bool
    """Whether the log waits for it."""
    given: int = -1
    """The last bucket that it has from this replica, and may yet read in its log."""


class OutputProgress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far an output of a replica is."""

    stream: str
    ready: bool
    """Whether it has a state and has caught up with its inputs."""
    held: bool
    """Whether upstream logs are kept for it."""
    end: int
    trimmed_upto: int
    readers: tuple[ReaderProgress, ...] = ()


class ProgressRequest(Message, frozen=True, gc=False):
    """A steward asks how far the replica of a fragment on a node is."""

    application: str
    fragment: str
    version: int


class Progress(Message, frozen=True, gc=False):
    """The answer: how far the replica is; no outputs if none runs there."""

    application: str
    fragment: str
    machine: str
    version: int
    """The version of the deployment that the replica knows."""
    outputs: tuple[OutputProgress, ...] = ()
