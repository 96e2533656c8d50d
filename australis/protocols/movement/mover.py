"""A node's part in moves: as the source, as the target, and as a reader of moving components."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from australis.kernel.machine import Effect, Event, MessageReceived, Send, SetTimer, TimerFired
from australis.protocols.movement.events import (
    Advanced,
    Began,
    Cancelling,
    Created,
    DropReplica,
    Entry,
    Gone,
    Guest,
    Handing,
    InstallFailed,
    InstallReplica,
    LetGo,
    MoveDecided,
    MovementOptions,
    NodeLost,
    Over,
    Owned,
    ReadersChanged,
    Redirected,
    Refused,
    ReplicaInstalled,
    Resubscribe,
    Resubscribed,
    SnapshotTaken,
    Started,
    TakeSnapshot,
    TellMoved,
    Told,
    Write,
)
from australis.protocols.movement.messages import (
    Answered,
    Cancel,
    Cancelled,
    Decision,
    Handover,
    Ready,
    Request,
    Switch,
    Switched,
)

RESEND = "resend"


class MovePhase(Enum):
    """The progress of a move as its source sees it."""

    SNAPSHOT = "snapshot"
    CATCHING_UP = "catching up"
    SWITCHING = "switching"
    HANDING = "handing over"
    CANCELLING = "cancelling"


NEXT: dict[MovePhase, frozenset[MovePhase]] = {
    MovePhase.SNAPSHOT: frozenset({MovePhase.CATCHING_UP, MovePhase.CANCELLING}),
    MovePhase.CATCHING_UP: frozenset({MovePhase.SWITCHING, MovePhase.CANCELLING}),
    MovePhase.SWITCHING: frozenset({MovePhase.HANDING, MovePhase.CANCELLING}),
    MovePhase.HANDING: frozenset({MovePhase.CANCELLING}),
    MovePhase.CANCELLING: frozenset(),
}
"""The allowed successors of each phase: after the handover only the target's answer or its loss
leads back, since it may have taken over without the source knowing."""


@dataclass
class _Move:
    """A move from this node."""

    name: str
    component: str
    target: str
    phase: MovePhase = MovePhase.SNAPSHOT
    deadline: int = 0
    epoch: int = 0
    """The epoch of the last announcement to readers."""
    request: Request | None = None
    heard: bool = False
    """Whether the target has answered yet."""
    mark: int | None = None
    """The position of the source's log when the target last reported its own."""
    waiting: set[str] = field(default_factory=set)
    """Readers that have not confirmed their switch yet."""

    def turn(self, phase: MovePhase) -> None:
        assert phase in NEXT[self.phase], f"{self.phase} to {phase}"
        self.phase = phase


@dataclass
class _Guest:
    """A replica that this node does not own yet."""

    move: str
    source: str
    installed: bool


class MoverMachine:
    """The state machine of all moves of one node."""

    def __init__(self, name: str, options: MovementOptions | None = None) -> None:
        self.name = name
        self.owned: dict[str, int] = {}
        """Components this node owns, with their epochs."""
        self._options = options or MovementOptions()
        self._incarnation = 0
        self._number = 0
        self._moves: dict[str, _Move] = {}
        """Moves from this node by name, in the order of their start."""
        self._guests: dict[str, _Guest] = {}
        self._elsewhere: dict[str, tuple[str, int]] = {}
        """Components that were here earlier, with their host and its epoch."""
        self._reading: dict[str, tuple[str, int]] = {}
        """Components that this node reads, with their host and its epoch."""
        self._told_by: dict[str, str] = {}
        """The node that awaits `Switched` for a component."""
        self._positions: dict[str, int] = {}
        self._readers: dict[str, tuple[str, ...]] = {}
        self._resending = False
        self._messages: dict[type, Callable[[str, Any, int], list[Effect]]] = {
            Decision: lambda sender, m, now: self._decide(m.component, m.target, now),
            Request: self._requested,
            Ready: self._ready,
            Switch: self._switch,
            Switched: self._switched,
            Handover: self._handed,
            Answered: self._answered,
            Cancel: self._cancel_here,
            Cancelled: self._cancelled,
        }

    # --- what others may ask --------------------------------------------------------------

    def runs(self, component: str) -> bool:
        """Whether a component's log can be read here."""
        guest = self._guests.get(component)
        return component in self.owned or (guest is not None and guest.installed)

    def takes_readers(self, component: str) -> bool:
        """Whether a new reader may subscribe to a component here: not while it moves, since its
        snapshot contains the readers."""
        return component in self.owned and component not in self.moving

    @property
    def guests(self) -> tuple[str, ...]:
        """Components that are on their way to this node."""
        return tuple(self._guests)

    def hosts(self, component: str) -> bool:
        """Whether a component is here or on its way here."""
        return component in self.owned or component in self._guests

    def awaits(self, move: str) -> bool:
        """Whether a replica is still to be installed here."""
        return any(g.move == move and not g.installed for g in self._guests.values())

    def elsewhere(self, component: str) -> tuple[str, int] | None:
        """The host of a component that was here earlier, and the epoch of that knowledge."""
        return self._elsewhere.get(component)

    def reads(self, component: str) -> str | None:
        """The node at which this node reads a component."""
        found = self._reading.get(component)
        return found[0] if found else None

    @property
    def moving(self) -> tuple[str, ...]:
        """Components that are about to leave this node."""
        return tuple(m.component for m in self._moves.values() if m.phase != MovePhase.CANCELLING)

    @property
    def unsettled(self) -> bool:
        """Whether a move from or to this node is under way."""
        return bool(self._moves or self._guests)

    # --- events -----------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event and return its effects in order."""
        effects = self._handle(event, now)
        if not self._resending and self.unsettled:
            self._resending = True
            effects.append(SetTimer(RESEND, now + self._options.resend_us))
        return effects

    def _handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case MessageReceived(sender, message):
                return self._messages[type(message)](sender, message, now)
            case TimerFired():
                self._resending = False
                return self._again(now)
            case Advanced(component, position):
                self._positions[component] = position
                return []
            case ReadersChanged(component, readers):
                self._readers[component] = readers
                return []
            case Resubscribed():
                return self._resubscribed(event)
            case Redirected(component, host, epoch):
                return self._read_at("", component, host, epoch)
            case SnapshotTaken():
                return self._snapshot_taken(event, now)
            case ReplicaInstalled(move):
                return self._installed(move)
            case InstallFailed(move):
                return self._install_failed(move)
            case Created(component):
                self._replay(Owned(component, 0))
                return [Write(Owned(component, 0))]
            case MoveDecided(component, target):
                return self._decide(component, target, now)
            case NodeLost(node):
                return self._lost(node, now)
            case Started():
                return self._start(event, now)
        raise AssertionError(f"unknown event {event}")

    def _start(self, event: Started, now: int) -> list[Effect]:
        self._incarnation = event.incarnation
        self.owned = dict.fromkeys(event.owned, 0)
        self._reading = {c: (host, epoch) for c, host, epoch in event.reading}
        for entry in event.journal:
            self._replay(entry)
        for component, guest in self._guests.items():
            guest.installed = component in event.running
        effects: list[Effect] = []
        for move in list(self._moves.values()):
            if move.phase not in (MovePhase.HANDING, MovePhase.CANCELLING):
                effects += self._cancel(move, now)
        return [*effects, *self._again(now)]

    def _replay(self, entry: Entry) -> None:
        match entry:
            case Owned(component, epoch):
                self.owned[component] = epoch
                self._guests.pop(component, None)
                self._elsewhere.pop(component, None)
            case Began(move, component, target):
                self._moves[move] = _Move(
                    move, component, target, epoch=self.owned.get(component, 0)
                )
            case Told(move, epoch):
                self._moves[move].epoch = epoch
            case Handing(move, epoch):
                self._moves[move].phase, self._moves[move].epoch = MovePhase.HANDING, epoch
            case Cancelling(move, epoch):
                self._moves[move].phase, self._moves[move].epoch = MovePhase.CANCELLING, epoch
                self.owned[self._moves[move].component] = epoch
            case Over(move):
                del self._moves[move]
            case Gone(component, host, epoch):
                self.owned.pop(component, None)
                self._point(component, host, epoch)
            case Guest(move, component, source):
                self._guests[component] = _Guest(move, source, installed=False)
            case Refused(_, component, host, epoch):
                self._guests.pop(component, None)
                self.owned.pop(component, None)
                self._point(component, host, epoch)

    def _point(self, component: str, host: str, epoch: int) -> None:
        known = self._elsewhere.get(component)
        if known is None or known[1] < epoch:
            self._elsewhere[component] = host, epoch

    # --- the source ---------------------------------------------------------------------------

    def _decide(self, component: str, target: str, now: int) -> list[Effect]:
        """Phase 1: start a move, unless the component is not here or is moving already."""
        if component not in self.owned or component in self.moving or target == self.name:
            return []
        self._number += 1
        name = f"{self.name}.{self._incarnation}.{self._number}"
        deadline = now + self._options.ready_us
        move = _Move(name, component, target, deadline=deadline, epoch=self.owned[component])
        self._moves[name] = move
        return [Write(Began(name, component, target)), TakeSnapshot(name, component)]

    def _snapshot_taken(self, event: SnapshotTaken, now: int) -> list[Effect]:
        """Phase 2: send the snapshot to the target."""
        move = self._moves.get(event.move)
        if move is None or move.phase is not MovePhase.SNAPSHOT:
            return []
        move.turn(MovePhase.CATCHING_UP)
        move.request = Request(move.name, move.component, event.snapshot, event.position)
        return [Send(move.target, move.request)]

    def _ready(self, sender: str, message: Ready, now: int) -> list[Effect]:
        """Phase 3: end when the replica has reached an earlier position of the source's log."""
        move = self._moves.get(message.move)
        if move is None:
            return [Send(sender, Cancel(message.move, "", 0))]
        if message.position is None:
            open_ = move.phase in (MovePhase.CATCHING_UP, MovePhase.SWITCHING)
            return self._cancel(move, now) if open_ else []
        if move.phase is MovePhase.SWITCHING and message.position < 0:
            return self._cancel(move, now)  # it has lost its replica since
        if move.phase is not MovePhase.CATCHING_UP:
            return []
        move.heard = message.position >= 0
        mark, move.mark = move.mark, self._positions.get(move.component, 0)
        if mark is None or message.position < mark - self._options.behind:
            return []
        return self._tell_readers(move, now)

    def _tell_readers(self, move: _Move, now: int) -> list[Effect]:
        """Phase 4: tell the readers to switch to the target."""
        move.turn(MovePhase.SWITCHING)
        move.request = None
        move.epoch += 1
        move.deadline = now + self._options.switch_us
        move.waiting = set(self._readers.get(move.component, ()))
        effects = [Write(Told(move.name, move.epoch)), LetGo(move.component)]
        if not move.waiting:
            return [*effects, *self._hand(move)]
        return [*effects, *self._switches(move, move.target)]

    def _switches(self, move: _Move, host: str) -> list[Effect]:
        switch = Switch(move.name, move.component, host, move.epoch)
        return [Send(reader, switch) for reader in sorted(move.waiting)]

    def _switched(self, sender: str, message: Switched, now: int) -> list[Effect]:
        """Phase 5: note a reader that has switched; hand over after the last one."""
        move = self._moves.get(message.move)
        if move is None or message.epoch < move.epoch:
            return []
        move.waiting.discard(sender)
        if move.phase is MovePhase.SWITCHING and not move.waiting:
            return self._hand(move)
        return []

    def _hand(self, move: _Move) -> list[Effect]:
        """Phase 6: from now on the component may be the target's."""
        move.turn(MovePhase.HANDING)
        return [Write(Handing(move.name, move.epoch)), self._handover(move)]

    def _handover(self, move: _Move) -> Send:
        readers = self._readers.get(move.component, ())
        return Send(move.target, Handover(move.name, move.component, move.epoch, readers))

    def _answered(self, sender: str, message: Answered, now: int) -> list[Effect]:
        move = self._moves.get(message.move)
        if move is None or move.phase is not MovePhase.HANDING:
            return []
        if not message.taken:
            return self._cancel(move, now)
        gone = Gone(move.component, move.target, move.epoch)
        self._replay(gone)
        del self._moves[move.name]
        return [
            Write(gone),
            Write(Over(move.name)),
            DropReplica(move.component),
            TellMoved(move.name, move.component, move.target, done=True),
        ]

    def _cancel(self, move: _Move, now: int) -> list[Effect]:
        """Cancel a move: the component stays, and both nodes redirect readers at the target."""
        move.turn(MovePhase.CANCELLING)
        move.request = None
        move.epoch += 1
        move.waiting = set(self._readers.get(move.component, ()))
        self.owned[move.component] = move.epoch
        return [
            Write(Cancelling(move.name, move.epoch)),
            LetGo(move.component),
            *self._switches(move, self.name),
            Send(move.target, Cancel(move.name, move.component, move.epoch)),
            TellMoved(move.name, move.component, move.target, done=False),
        ]

    def _cancelled(self, sender: str, message: Cancelled, now: int) -> list[Effect]:
        move = self._moves.get(message.move)
        if move is None or move.phase is not MovePhase.CANCELLING:
            return []
        del self._moves[move.name]
        return [Write(Over(move.name))]

    def _lost(self, node: str, now: int) -> list[Effect]:
        """Cancel moves to a lost node and stop replicas that it has not handed over; its components
        are started elsewhere."""
        effects: list[Effect] = []
        for component, guest in list(self._guests.items()):
            if guest.source == node:
                effects += self._refuse(guest.move, component, node, 0)
        for move in list(self._moves.values()):
            if move.target == node and move.phase is not MovePhase.CANCELLING:
                effects += self._cancel(move, now)
        return effects

    # --- the target -----------------------------------------------------------------------------

    def _requested(self, sender: str, message: Request, now: int) -> list[Effect]:
        component = message.component
        guest = self._guests.get(component)
        if guest is not None and guest.move == message.move:
            if guest.installed:
                return [self._say_ready(component, guest)]
            return [InstallReplica(message.move, component, message.snapshot)]
        full = len(self._guests) >= self._options.most_in
        if guest is not None or component in self.owned or full:
            return [Send(sender, Ready(message.move, None))]
        self._guests[component] = _Guest(message.move, sender, installed=False)
        return [
            Write(Guest(message.move, component, sender)),
            InstallReplica(message.move, component, message.snapshot),
        ]

    def _say_ready(self, component: str, guest: _Guest) -> Send:
        return Send(guest.source, Ready(guest.move, self._positions.get(component, -1)))

    def _of_move(self, move: str) -> tuple[str, _Guest] | None:
        found = ((c, g) for c, g in self._guests.items() if g.move == move)
        return next(found, None)

    def _installed(self, move: str) -> list[Effect]:
        found = self._of_move(move)
        if found is None:
            return []
        component, guest = found
        guest.installed = True
        return [self._say_ready(component, guest)]

    def _install_failed(self, move: str) -> list[Effect]:
        found = self._of_move(move)
        if found is None:
            return []
        component, guest = found
        return [
            *self._refuse(move, component, guest.source, 0),
            Send(guest.source, Ready(move, None)),
        ]

    def _refuse(self, move: str, component: str, host: str, epoch: int) -> list[Effect]:
        refused = Refused(move, component, host, epoch)
        self._replay(refused)
        return [Write(refused), DropReplica(component)]

    def _handed(self, sender: str, message: Handover, now: int) -> list[Effect]:
        component = message.component
        guest = self._guests.get(component)
        if guest is not None and guest.move == message.move and guest.installed:
            owned = Owned(component, message.epoch)
            self._replay(owned)
            self._readers.setdefault(component, message.readers)
            return [Write(owned), Send(sender, Answered(message.move, True))]
        return [Send(sender, Answered(message.move, self._had(component, message.epoch)))]

    def _had(self, component: str, epoch: int) -> bool:
        """Whether this node has owned a component since it was handed over under this epoch."""
        if component in self.owned:
            return self.owned[component] >= epoch
        there = self._elsewhere.get(component)
        return there is not None and there[1] > epoch

    def _cancel_here(self, sender: str, message: Cancel, now: int) -> list[Effect]:
        done = Send(sender, Cancelled(message.move))
        found = self._of_move(message.move)
        if found is not None:
            component, guest = found
            epoch = message.epoch
            return [*self._refuse(message.move, component, guest.source, epoch), done]
        if self.owned.get(message.component, message.epoch) < message.epoch:
            # This node had been declared lost and is back: the component is no longer its own.
            return [*self._refuse(message.move, message.component, sender, message.epoch), done]
        return [done]

    # --- readers ----------------------------------------------------------------------------------

    def _switch(self, sender: str, message: Switch, now: int) -> list[Effect]:
        known = self._reading.get(message.component)
        if known is not None and known[1] >= message.epoch:
            return [Send(sender, Switched(message.move, known[1], -1))]
        self._told_by[message.component] = sender
        return self._read_at(message.move, message.component, message.host, message.epoch)

    def _read_at(self, move: str, component: str, host: str, epoch: int) -> list[Effect]:
        known = self._reading.get(component)
        if known is not None and known[1] >= epoch:
            return []
        self._reading[component] = host, epoch
        return [Resubscribe(move, component, host, epoch)]

    def _resubscribed(self, event: Resubscribed) -> list[Effect]:
        sender = self._told_by.pop(event.component, None)
        if sender is None or not event.move:
            return []
        return [Send(sender, Switched(event.move, event.epoch, event.last))]

    # --- resending --------------------------------------------------------------------------------

    def _again(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for move in list(self._moves.values()):
            effects += self._once_more(move, now)
        for component, guest in self._guests.items():
            if guest.installed:
                effects.append(self._say_ready(component, guest))
            else:
                effects.append(Send(guest.source, Ready(guest.move, -1)))
        return effects

    def _once_more(self, move: _Move, now: int) -> Iterable[Effect]:
        late = now >= move.deadline
        match move.phase:
            case MovePhase.SNAPSHOT | MovePhase.CATCHING_UP if late:
                return self._cancel(move, now)
            case MovePhase.CATCHING_UP:
                assert move.request is not None
                return () if move.heard else (Send(move.target, move.request),)
            case MovePhase.SWITCHING:
                return self._hand(move) if late else self._switches(move, move.target)
            case MovePhase.HANDING:
                return (self._handover(move),)
            case MovePhase.CANCELLING:
                cancel = Cancel(move.name, move.component, move.epoch)
                return (*self._switches(move, self.name), Send(move.target, cancel))
        return ()
