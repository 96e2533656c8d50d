"""Broken variants of moves, each with one wrong decision, which the checkers must catch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from australis.kernel.machine import Effect, Send
from australis.protocols.movement.events import (
    Advanced,
    DropReplica,
    InstallReplica,
    Owned,
    ReplicaInstalled,
    Resubscribe,
    Write,
)
from australis.protocols.movement.messages import Answered, Cancel, Cancelled, Handover
from australis.protocols.movement.mover import MoverMachine, _Move
from australis.sim.harness.model import Variant
from australis.sim.movement.flow import Replica, Snapshot
from australis.sim.movement.host import FlowHost
from australis.sim.movement.schedule import MovementScenario


class _DropsEarly(MoverMachine):
    def _hand(self, move: _Move) -> list[Effect]:
        return [*super()._hand(move), DropReplica(move.component)]


class DropsEarly(FlowHost):
    """The source stops before the target has said that the component is its own."""

    mover_class = _DropsEarly


class _CallsOffLate(MoverMachine):
    def _once_more(self, move: _Move, now: int):  # type: ignore[no-untyped-def]
        if move.phase.value == "handing over" and now > move.deadline + 500_000:
            return self._cancel(move, now)
        return super()._once_more(move, now)


class CallsOffLate(FlowHost):
    """The source calls a move off that the target may have completed, and the target does not
    look at epochs."""

    class mover_class(_CallsOffLate):  # noqa: N801
        def _cancel_here(self, sender: str, message: Cancel, now: int) -> list[Effect]:
            if message.component in self.owned:
                return [Send(sender, Cancelled(message.move))]
            return super()._cancel_here(sender, message, now)


class ReadyUnread(FlowHost):
    """A replica counts as running before the logs before it know that it reads them."""

    def _installed(self, effect: InstallReplica, snapshot: Snapshot) -> None:
        super()._installed(effect, snapshot)
        replica = self.disk.replicas.get(effect.component)
        if replica is not None and replica.incarnation == effect.move:
            replica.known_to |= set(replica.kind.inputs)
            self.take(Advanced(effect.component, replica.position))
            self.take(ReplicaInstalled(effect.move))


class TakesAnybody(FlowHost):
    """New readers may begin while a component moves: only one of the two logs knows them."""

    class mover_class(MoverMachine):  # noqa: N801
        def takes_readers(self, component: str) -> bool:
            return True


class ForgetsTheTail(FlowHost):
    """A snapshot without the part of the log that readers lack."""

    def snapshot(self, replica: Replica) -> Snapshot:
        whole = super().snapshot(replica)
        whole.base, whole.log = whole.position, []
        return whole


class SkipsOne(FlowHost):
    """A reader that has switched goes on one tuple too late."""

    def _resubscribe(self, effect: Resubscribe) -> None:
        super()._resubscribe(effect)
        self.__dict__.setdefault("skips", set()).add(effect.component)

    def _receive(self, stream: str, reader: str, after: int, values: tuple[int, ...]) -> None:
        if values and stream in self.__dict__.get("skips", set()):
            self.__dict__["skips"].discard(stream)
            values = values[1:]
        super()._receive(stream, reader, after, values)


class WrongState(FlowHost):
    """A snapshot whose state is not that of its position."""

    def snapshot(self, replica: Replica) -> Snapshot:
        whole = super().snapshot(replica)
        whole.state += 1
        return whole


class _KeepsGuests(MoverMachine):
    def _cancel_here(self, sender: str, message: Cancel, now: int) -> list[Effect]:
        found = self._of_move(message.move)
        if found is None:
            return super()._cancel_here(sender, message, now)
        owned = Owned(found[0], 0)
        self._replay(owned)
        return [Write(owned), Send(sender, Cancelled(message.move))]


class KeepsGuests(FlowHost):
    """A target that keeps the replica of a move that was called off."""

    mover_class = _KeepsGuests


class _SaysYes(MoverMachine):
    def _handed(self, sender: str, message: Handover, now: int) -> list[Effect]:
        super()._handed(sender, message, now)
        return [Send(sender, Answered(message.move, True))]


class SaysYes(FlowHost):
    """A target that takes over without writing it down."""

    mover_class = _SaysYes


def _variant(kind: type[FlowHost], caught_by: str, first: int = 0) -> Variant[MovementScenario]:
    says = " ".join(str(kind.__doc__).split())
    apply = partial(replace, host_class=kind)
    return Variant(kind.__name__, says, apply, (caught_by,), range(first, first + 500))  # type: ignore[arg-type]


VARIANTS = {
    one.name: one
    for one in (
        _variant(DropsEarly, "lost"),
        _variant(CallsOffLate, "owners", 190),
        _variant(ReadyUnread, "stuck", 11),
        _variant(TakesAnybody, "stuck", 30),
        _variant(ForgetsTheTail, "stuck", 12),
        _variant(SkipsOne, "wrong"),
        _variant(WrongState, "wrong"),
        _variant(KeepsGuests, "owners", 53),
        _variant(SaysYes, "lost"),
    )
}
