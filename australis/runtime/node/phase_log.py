"""What is recorded of an output: its phases, what its replicas' logs differ in, and its loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
)
from australis.protocols.dpc.states import Phase
from australis.runtime.node.events import ERROR, INFO, WARNING, Tell


class PhaseLog:
    """Records each phase change of one output, and the time spent in each phase."""

    def __init__(
        self,
        tell: Tell,
        about: Callable[[], Mapping[str, str]],
        replica: str,
        output: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A log that takes the event being handled from `about` (`Driver.about`)."""
        self._tell, self._about = tell, about
        self._replica, self._output = replica, output
        self._clock = clock
        self._now = Phase.RECOVERING, clock(), dict.fromkeys(Phase, 0.0)
        """The phase, its start, and the earlier seconds of each phase; replaced atomically."""

    def changed(self, effect: AnnouncePhase) -> None:
        """Record a phase change."""
        now = effect.now
        self._now = now, self._clock(), self.seconds
        self._tell(
            "phase",
            level=INFO if now is Phase.STABLE else WARNING,
            kind=self._output,
            **self._about(),
            replica=self._replica,
            output=self._output,
            was=effect.was.value,
            now=now.value,
            why=effect.trigger.value,
        )

    @property
    def seconds(self) -> dict[Phase, float]:
        """The seconds that the output spent in each phase in this incarnation."""
        phase, since, before = self._now
        return before | {phase: before[phase] + self._clock() - since}


def tell_differences(
    tell: Tell,
    about: Mapping[str, str],
    machine: str,
    effect: AnnounceDifference,
    operators: Iterable[str],
) -> None:
    """Record that logs that should be equal differ, or that they agree again."""
    told = {**about, "machine": machine, "stream": effect.stream}
    if not effect.differences:
        tell("replicas_agree", kind=effect.stream, **told)
    for one in effect.differences:
        tell(
            "replicas_differ",
            level=ERROR,
            kind=effect.stream,
            **told,
            operators=list(operators),
            replica=one.replica,
            after=one.after,
            bucket=one.bucket,
            mine=f"{one.mine:016x}",
            theirs=f"{one.theirs:016x}",
            stops=effect.stops,
        )


def tell_went_back(
    tell: Tell, about: Mapping[str, str], machine: str, effect: AnnounceWentBack
) -> None:
    """Record that the log of a source has gone back, with what to do, or is as it was again."""
    told = {**about, "machine": machine, "stream": effect.stream, "reader": effect.reader}
    found = effect.went_back
    if found is None:
        tell("source_is_back", kind=effect.stream, **told)
        return
    tell(
        "source_went_back",
        level=ERROR,
        kind=effect.stream,
        **told,
        consumer=found.consumer,
        upto=found.upto,
        end=found.end,
        why=found.told(effect.stream),
    )


def tell_loss(tell: Tell, about: Mapping[str, str], machine: str, effect: AnnounceLoss) -> str:
    """Record that an output cannot go on; returns the sentence that says why and what to do."""
    if effect.waits_for:
        return _tell_wait(tell, about, machine, effect)
    gone = dict(effect.gone)
    logs = " and ".join(f"'{stream}' up to bucket {upto}" for stream, upto in effect.gone)
    why = (
        f"no replica has the state of '{effect.output}' any more, which may rest on all earlier"
        f" tuples, and logs no longer hold {logs}: remove the state of every node to begin anew,"
        " or name another 'state'"
    )
    told = {**about, "machine": machine, "output": effect.output, "gone": gone, "why": why}
    tell("state_lost", level=ERROR, kind=effect.output, **told)
    return why


def _tell_wait(tell: Tell, about: Mapping[str, str], machine: str, effect: AnnounceLoss) -> str:
    """Record that an output waits for replicas that may have its state."""
    names = ", ".join(effect.waits_for)
    why = (
        f"'{effect.output}' has lost its state and waits for {names}, which may have it: bring that"
        " back, or set 'leases: {replicas: ...}' after which it is given up"
    )
    told = {**about, "machine": machine, "output": effect.output, "why": why}
    tell("state_awaited", level=ERROR, kind=effect.output, **told, waits_for=effect.waits_for)
    return why
