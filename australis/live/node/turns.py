"""The turns of an output: told, and timed, instead of kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from australis.live.node.events import INFO, WARNING, Tell
from australis.protocols.dpc.states import TRANSITIONS, Phase, Turn


class Turns(list[tuple[Phase, Turn]]):
    """Takes the place of an output's list of turns, which would grow for ever."""

    def __init__(
        self,
        tell: Tell,
        about: Callable[[], Mapping[str, str]],
        replica: str,
        output: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`about` says what is being handled now (`Driver.about`)."""
        super().__init__()
        self._tell, self._about = tell, about
        self._replica, self._output = replica, output
        self._clock = clock
        self._now = Phase.RECOVERING, clock(), dict.fromkeys(Phase, 0.0)
        """The phase, since when, and how long each took before; replaced as a whole."""

    def append(self, turn: tuple[Phase, Turn]) -> None:
        was, now = turn[0], TRANSITIONS[turn]
        self._now = now, self._clock(), self.seconds
        self._tell(
            "phase",
            level=INFO if now is Phase.STABLE else WARNING,
            kind=self._output,
            **self._about(),
            replica=self._replica,
            output=self._output,
            was=was.value,
            now=now.value,
            why=turn[1].value,
        )

    @property
    def seconds(self) -> dict[Phase, float]:
        """How long the output was in each phase, this life."""
        phase, since, before = self._now
        return before | {phase: before[phase] + self._clock() - since}
