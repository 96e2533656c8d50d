"""Questions that wait for an answer, all with the same timeout."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from australis.kernel.machine import Effect, Message, Send, SetTimer

ANSWERS = "answers"
MAX_INCARNATIONS = 1 << 32
Answered = Callable[[Any, int], list[Effect]]
Silent = Callable[[int], list[Effect]]


class Questions:
    """Open questions: the peer asked, and what follows an answer or a timeout."""

    def __init__(self, answer_us: int) -> None:
        self._answer_us = answer_us
        self._number = 0
        self._waiting: dict[int, tuple[str, Answered, Silent]] = {}
        self._deadlines: deque[tuple[int, int]] = deque()

    def start(self, incarnation: int) -> None:
        """Start with numbers that no earlier incarnation has used."""
        self._number = incarnation * MAX_INCARNATIONS

    def ask(
        self,
        to: str,
        make: Callable[[int], Message],
        answered: Answered,
        silent: Silent,
        now: int,
    ) -> list[Effect]:
        """Ask a peer; `make` builds the message from the number of the question."""
        self._number += 1
        self._waiting[self._number] = to, answered, silent
        self._deadlines.append((now + self._answer_us, self._number))
        effects: list[Effect] = [Send(to, make(self._number))]
        if len(self._deadlines) == 1:
            effects.append(SetTimer(ANSWERS, now + self._answer_us))
        return effects

    def answer(self, sender: str, number: int, message: Any, now: int) -> list[Effect]:
        """Handle an answer, which may be late or a duplicate."""
        waiting = self._waiting.get(number)
        if waiting is None or waiting[0] != sender:
            return []
        del self._waiting[number]
        return waiting[1](message, now)

    def fired(self, now: int) -> list[Effect]:
        """Handle the questions whose timeout has passed."""
        effects: list[Effect] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number = self._deadlines.popleft()
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                effects += waiting[2](now)
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            self._deadlines.popleft()
        if self._deadlines:
            effects.append(SetTimer(ANSWERS, self._deadlines[0][0]))
        return effects
