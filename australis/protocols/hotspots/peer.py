"""A complete peer: its balancer and ring, and the mover that carries out decisions."""

from __future__ import annotations

from australis.kernel.machine import Effect, Event, MessageReceived, Send, TimerFired
from australis.protocols.hotspots.balancer import BalancerMachine
from australis.protocols.hotspots.events import Move, MoveEnded
from australis.protocols.movement import events as moves
from australis.protocols.movement import messages as words
from australis.protocols.movement.mover import RESEND, MoverMachine

_MOVER_MESSAGES = (
    words.Decision,
    words.Request,
    words.Ready,
    words.Switch,
    words.Switched,
    words.Handover,
    words.Answered,
    words.Cancel,
    words.Cancelled,
)
_MOVER_EVENTS = (
    moves.Started,
    moves.Created,
    moves.SnapshotTaken,
    moves.ReplicaInstalled,
    moves.InstallFailed,
    moves.Advanced,
    moves.ReadersChanged,
    moves.Resubscribed,
    moves.Redirected,
    moves.NodeLost,
    moves.MoveDecided,
)


class PeerMachine:
    """The state machine of one peer of a participant."""

    def __init__(self, balancer: BalancerMachine, mover: MoverMachine) -> None:
        self.balancer = balancer
        self.mover = mover

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Dispatch an event to its machine, start moves, and report their ends."""
        match event:
            case MessageReceived(sender, words.Request(move, component)) if not self._welcomes(
                component, now
            ):
                return [Send(sender, words.Ready(move, None))]
        if self._is_mover(event):
            effects = list(self.mover.handle(event, now))
        else:
            effects = list(self.balancer.handle(event, now))
        found: list[Effect] = []
        for effect in effects:
            match effect:
                case Move(component, target):
                    found += self.handle(moves.MoveDecided(component, target), now)
                case moves.TellMoved(component=component, done=done):
                    found += [effect, *self.balancer.handle(MoveEnded(component, done), now)]
                case _:
                    found.append(effect)
        return found

    def _welcomes(self, component: str, now: int) -> bool:
        """Whether a component may come: it is already on its way, or no other one is."""
        if self.mover.hosts(component):
            return True
        return self.balancer.welcomes(now) and not self.mover.guests

    def _is_mover(self, event: Event) -> bool:
        match event:
            case MessageReceived(_, message):
                return isinstance(message, _MOVER_MESSAGES)
            case TimerFired(name):
                return name == RESEND
        return isinstance(event, _MOVER_EVENTS)
