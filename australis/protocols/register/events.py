"""Events and effects of keepers and proposers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Effect, Event
from australis.protocols.register.messages import Ballot, Keepers, Record

Edit = Callable[[bytes], bytes]
"""A pure function of a register's value; a `UserError` refuses the edit and changes nothing."""


class RegisterOptions(msgspec.Struct, frozen=True):
    """The times of a proposer."""

    resend_us: int = 300 * MILLISECOND
    """How long to wait for answers before the next attempt."""
    pause_us: int = 100 * MILLISECOND
    """The longest pause after a conflict; it doubles with each further one."""
    deadline_us: int = 10 * SECOND
    """How long an operation is tried."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What a keeper remembers of a register."""

    promised: Ballot = Ballot()
    accepted: Ballot = Ballot()
    record: Record = Record()


class Started(Event, frozen=True):
    """A proposer starts; incarnations of one proposer grow."""

    incarnation: int
    keepers: Keepers


class Submitted(Event, frozen=True):
    """A user wants to change a register, or to read it (no edit)."""

    tag: str
    register: str
    edit: Edit | None = None


class KeepersChosen(Event, frozen=True):
    """A user wants other keepers; those of a new cluster if there are none."""

    tag: str
    nodes: tuple[str, ...]


class PersistKept(Effect, frozen=True):
    """Store what a keeper remembers of a register, before what follows is carried out."""

    register: str
    kept: Kept


class PersistKeepers(Effect, frozen=True):
    """Store a set of keepers, before what follows is carried out."""

    keepers: Keepers


class TellDecided(Effect, frozen=True):
    """Tell that an operation is decided; `record` is the register's record with it."""

    tag: str
    record: Record


class TellRefused(Effect, frozen=True):
    """Tell that an operation was refused and changes nothing."""

    tag: str
    why: str
    record: Record | None = None


class TellUnknown(Effect, frozen=True):
    """Tell that no majority answers: the operation may have been applied, or may yet be."""

    tag: str


class TellUnreachable(Effect, frozen=True):
    """Tell that no majority answers: the operation has not been applied."""

    tag: str
