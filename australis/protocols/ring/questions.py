"""Questions that wait for an answer, all equally long."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from australis.kernel.machine import Effect, Message, Send, SetTimer

ANSWERS = "answers"
LIVES = 1 << 32
Answered = Callable[[Any, int], list[Effect]]
Silent = Callable[[int], list[Effect]]


class Questions:
    """Whom was asked what, and what is to be done with the answer or without one."""

    def __init__(self, answer_us: int) -> None:
        self._answer_us = answer_us
        self._number = 0
        self._waiting: dict[int, tuple[str, Answered, Silent]] = {}
        self._deadlines: deque[tuple[int, int]] = deque()

    def start(self, life: int) -> None:
        """Numbers that no earlier life used."""
        self._number = life * LIVES

    def ask(
        self,
        to: str,
        make: Callable[[int], Message],
        answered: Answered,
        silent: Silent,
        now: int,
    ) -> list[Effect]:
        """Ask somebody; `make` gets the number of the question."""
        self._number += 1
        self._waiting[self._number] = to, answered, silent
        self._deadlines.append((now + self._answer_us, self._number))
        effects: list[Effect] = [Send(to, make(self._number))]
        if len(self._deadlines) == 1:
            effects.append(SetTimer(ANSWERS, now + self._answer_us))
        return effects

    def answer(self, sender: str, number: int, message: Any, now: int) -> list[Effect]:
        """Somebody answers, maybe too late or for the second time."""
        waiting = self._waiting.get(number)
        if waiting is None or waiting[0] != sender:
            return []
        del self._waiting[number]
        return waiting[1](message, now)

    def fired(self, now: int) -> list[Effect]:
        """Some may have been silent for too long."""
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
