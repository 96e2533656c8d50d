"""States that no replica has any more (thesis 4.8 and 5.8.5).

A replica without its state asks the others for theirs. Where none can give it and upstream logs have
forgotten what would rebuild it, a convergent-capable output begins anew, with an empty state, behind
what is gone, and its log begins where that is right again. Which bucket that is, the first replica
by name decides; the others begin after the same one as soon as they hear of it, so that all logs
begin alike. Consumers are told which buckets are gone. Any other output cannot go on, and says so.

No replica begins anew before all of them have answered: one that is away may have the state. A
replica that is away for longer than its lease is given up; without leases, that others wait for it
is announced.
"""

from __future__ import annotations

from collections.abc import Sequence

from australis.protocols.dpc.messages import NoSnapshot
from australis.protocols.dpc.subscribers import ABSENT_US


class Loss:
    """What is known of the state that an output has lost."""

    def __init__(
        self,
        name: str,
        peers: Sequence[str],
        fresh_us: int,
        certain_us: int,
        lease_us: int | None = None,
    ) -> None:
        """A loss at a replica, to which answers of its peers count for `fresh_us`; that it is for
        good is announced after `certain_us`, in which the peers can hear of it. A peer that is
        silent for longer than `lease_us` is not waited for."""
        self._name = name
        self._each_us = fresh_us
        self._certain_us = certain_us
        self._answers: dict[str, tuple[int, NoSnapshot]] = {}
        self.restart()
        self.among(peers, lease_us)

    def among(self, peers: Sequence[str], lease_us: int | None) -> None:
        """Ask these peers from now on."""
        self._peers = tuple(peers)
        self._lease_us = lease_us
        self._fresh_us = self._each_us * max(1, len(self._peers))
        self._answers = {p: answer for p, answer in self._answers.items() if p in self._peers}

    def restart(self) -> None:
        """The state is lost now: nothing is known of it yet."""
        self._answers.clear()
        self._lost_us: int | None = None
        self._since_us: int | None = None
        self._waits = False
        """Whether it was announced that silent peers are waited for."""
        self.for_good = False
        """Whether it was announced that the output cannot go on."""

    def noticed(self, now: int) -> None:
        """The output is without its state; leases of peers that never answer begin now."""
        if self._lost_us is None:
            self._lost_us = now

    def answered(self, peer: str, answer: NoSnapshot, now: int) -> None:
        """A peer cannot give its state."""
        self._answers[peer] = now, answer

    def silent(self, now: int) -> list[str]:
        """The peers that may have the state, as far as is known: they have not denied it lately."""
        known = {p for p, (at, _) in self._answers.items() if now - at <= self._fresh_us}
        return [peer for peer in self._peers if peer not in known and not self._given_up(peer, now)]

    def _given_up(self, peer: str, now: int) -> bool:
        """Whether a peer has been silent for longer than its lease."""
        heard_us = self._answers[peer][0] if peer in self._answers else self._lost_us
        if self._lease_us is None or heard_us is None:
            return False
        return now - heard_us > self._lease_us

    def waits_too_long(self, now: int) -> bool:
        """Whether it is to be announced now that silent peers are waited for."""
        due = not self._waits and self._lost_us is not None and now - self._lost_us > ABSENT_US
        self._waits |= due
        return due

    @property
    def right_from(self) -> int | None:
        """The bucket by which the state of a peer that has begun anew is right again, if one has."""
        known = [answer.right_from for _, answer in self._answers.values()]
        return max((bucket for bucket in known if bucket >= 0), default=None)

    def decides(self, now: int) -> bool:
        """Whether this replica decides where to begin anew."""
        first = all(self._name < p for p in self._peers if not self._given_up(p, now))
        return first and all(answer.lost for _, answer in self._answers.values())

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
