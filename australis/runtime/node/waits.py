"""For whom an output waits: which input holds it back, since when, and how far that is behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.states import Phase
from australis.runtime.json_values import iso_time
from australis.runtime.node.events import WARNING, Tell
from australis.streams.buckets import Buckets

WAITING_S = 1.0
"""The time, beyond two buckets, after which a wait of an output for an input is long."""
TOLD_AFTER_LOOKS = 10
"""The number of looks in a row, one a second, after which a long wait is an event."""


def limit_s(buckets: Buckets) -> float:
    """The time after which a wait is long."""
    return WAITING_S + 2 * buckets.size_us / 1e6


def of_wait(output: Output, buckets: Buckets, now_us: int) -> dict[str, Any]:
    """The input whose boundary holds back an output, since when, and how far it is behind.

    Two kinds of waits are long: its boundary does not advance though all that there is of it has
    been read, or it advances and lies behind that of another input. Buckets that are there and
    have not been read or processed yet are no wait.
    """
    one = output.held_back_by
    heard = one.advanced_us > 0
    waits_s = (now_us - one.advanced_us) / 1e6 if heard else None
    behind_s = _behind(one, output.inputs) * buckets.size_us / 1e6
    read = max(one.head, -1) <= one.have and one.have < one.room and output.upto >= output.target
    stands = read and waits_s is not None and waits_s >= limit_s(buckets)
    return {
        "stream": one.stream,
        "since": iso_time(one.advanced_us) if heard else None,
        "waits_s": None if waits_s is None else round(waits_s, 3),
        "behind_s": round(behind_s, 3),
        "stands": stands,
        "long": stands or (heard and behind_s >= limit_s(buckets)),
    }


def _behind(one: Input, inputs: Iterable[Input]) -> int:
    """The number of buckets by which what there is of an input ends before another one."""
    return max(0, max(max(other.have, other.head) for other in inputs) - max(one.have, one.head))


class Waits:
    """Tells of each output that waits for long, and when it goes on."""

    def __init__(self, tell: Tell, off: Callable[[str], str]) -> None:
        """Tells with the reason that `off` gives for a stream: a clock that is off, or nothing."""
        self._tell = tell
        self._off = off
        self._looks: dict[str, int] = {}
        self._told: set[str] = set()

    def look(self, outputs: Mapping[str, Output], buckets: Buckets, now_us: int) -> None:
        """Look at the outputs of this node; called once a second."""
        for stream, output in outputs.items():
            wait = of_wait(output, buckets, now_us)
            waits = bool(wait["long"]) and output.phase is not Phase.RECOVERING
            self._looks[stream] = self._looks.get(stream, 0) + 1 if waits else 0
            if self._looks[stream] >= TOLD_AFTER_LOOKS and stream not in self._told:
                self._told.add(stream)
                told = {key: wait[key] for key in ("since", "behind_s")}
                why = f"{stream} {in_words(wait)}{self._off(wait['stream'])}"
                about = {"output": stream, "input": wait["stream"]} | told
                self._tell("output_waits", level=WARNING, kind=stream, why=why, **about)
            elif not waits and stream in self._told:
                self._told.remove(stream)
                why = f"{stream} no longer waits for {wait['stream']}"
                self._tell("output_goes_on", kind=stream, output=stream, why=why)


def in_words(wait: Mapping[str, Any], source: str | None = None) -> str:
    """A long wait in words.

    >>> in_words({"stream": "s2", "since": "2026-01-01T00:00:05.7Z", "stands": True, "behind_s": 0})
    'waits for s2, which has given nothing since 2026-01-01T00:00:05Z'
    >>> in_words({"stream": "s2", "since": "...", "stands": False, "behind_s": 5.0})
    'waits for s2, which is 5.0 s behind its other inputs'
    """
    name = source or wait["stream"]
    if wait["stands"]:
        return f"waits for {name}, which has given nothing since {wait['since'][:19]}Z"
    return f"waits for {name}, which is {wait['behind_s']:,.1f} s behind its other inputs"
