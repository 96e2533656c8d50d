"""How far a replica is, for the steward that carries out a change of its fragment."""

from __future__ import annotations

from australis.protocols.change.messages import OutputProgress, ReaderProgress
from australis.protocols.dpc.messages import reader_key
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.protocols.dpc.subscribers import ABSENT_US


def progress_of(machine: ReplicaMachine, now: int) -> tuple[OutputProgress, ...]:
    """How far the outputs of a replica are."""
    return tuple(_of_output(output, now) for output in machine.outputs.values())


def _of_output(output: Output, now: int) -> OutputProgress:
    runs = output.phase is not Phase.RECOVERING and not output.comparison.stops
    readers = tuple(
        ReaderProgress(
            reader_key(one.node, one.reader),
            one.log or one.overlay or one.head,
            one.acknowledged,
            one.incarnation >= 0 and now - one.heard_us <= ABSENT_US,
            not one.lapsed,
            one.given,
        )
        for one in output.subscribers.all.values()
    )
    return OutputProgress(
        output.stream,
        runs and not output.state_lost and not output.left_behind,
        all(one.is_held for one in output.inputs),
        output.end,
        output.trimmed_upto,
        readers,
    )
