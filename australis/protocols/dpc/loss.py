"""States that no replica has any more (thesis 4.8 and 5.8.5).

A replica without its state asks the others for theirs. Where none can give it and upstream logs have
forgotten what would rebuild it, a convergent-capable output begins anew, with an empty state, behind
what is gone, and its log begins where that is right again. Which bucket that is, the first replica
by name decides; the others begin after the same one as soon as they hear of it, so that all logs
begin alike. Consumers are told which buckets are gone. Any other output cannot go on, and says so.

No replica begins anew before all of them have answered: one that is away may have the state.
"""

from __future__ import annotations

from collections.abc import Sequence

from australis.protocols.dpc.messages import NoSnapshot


class Loss:
    """What is known of the state that an output has lost."""

    def __init__(self, name: str, peers: Sequence[str], fresh_us: int, certain_us: int) -> None:
        """A loss at a replica, to which answers of its peers count for `fresh_us`; that it is for
        good is announced after `certain_us`, in which the peers can hear of it."""
        self._peers = tuple(peers)
        self._first = all(name < peer for peer in peers)
        self._fresh_us = fresh_us * max(1, len(self._peers))
        self._certain_us = certain_us
        self.restart()

    def restart(self) -> None:
        """The state is lost now: nothing is known of it yet."""
        self._answers: dict[str, tuple[int, NoSnapshot]] = {}
        self._since_us: int | None = None
        self.for_good = False
        """Whether it was announced that the output cannot go on."""

    def answered(self, peer: str, answer: NoSnapshot, now: int) -> None:
        """A peer cannot give its state."""
        self._answers[peer] = now, answer

    def silent(self, now: int) -> list[str]:
        """The peers that may have the state, as far as is known: they have not denied it lately."""
        known = {p for p, (at, _) in self._answers.items() if now - at <= self._fresh_us}
        return [peer for peer in self._peers if peer not in known]

    @property
    def right_from(self) -> int | None:
        """The bucket by which the state of a peer that has begun anew is right again, if one has."""
        known = [answer.right_from for _, answer in self._answers.values()]
        return max((bucket for bucket in known if bucket >= 0), default=None)

    @property
    def decides(self) -> bool:
        """Whether this replica decides where to begin anew."""
        return self._first and all(answer.lost for _, answer in self._answers.values())

    def is_for_good(self, now: int) -> bool:
        """The output cannot go on as it seems; returns whether that is to be announced now."""
        if self._since_us is None:
            self._since_us = now
        due = now - self._since_us >= self._certain_us and not self.for_good
        self.for_good |= due
        return due

    def is_open(self) -> None:
        """The output may go on: somebody may have what it needs."""
        self._since_us = None
