"""The tasks that run here: own ones and others', and which of them may be moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from australis.protocols.contracts.choices import load_of
from australis.protocols.contracts.costs import Load
from australis.protocols.contracts.events import Carried
from australis.protocols.contracts.terms import Task


class Running:
    """What runs here, and where own tasks are that do not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: dict[str, Task] = {}
        """Everything that runs here."""
        self.load = Load()
        self.moving: dict[str, int] = {}
        """Tasks of which it is not known yet whether they have moved, and under which movement."""
        self.own: set[str] = set()
        """Tasks that own clients want, wherever they run."""
        self.left: set[str] = set()
        """Own tasks that have moved for good."""
        self.stays: set[str] = set()
        """Others' tasks that came for good and may not be moved further."""

    def begin(self, tasks: Iterable[Task]) -> None:
        """Own tasks, all of them here as far as nothing else is said."""
        self.tasks = {task.name: task for task in tasks}
        self.own = set(self.tasks)

    def restore(self, entry: Carried) -> None:
        """Go on as a journal says that was written anew."""
        own = {n: t for n, t in self.tasks.items() if t.origin == self.name}
        self.tasks = {n: t for n, t in own.items() if n not in entry.away}
        self.tasks |= {task.name: task for task in entry.taken}
        self.left, self.stays = set(entry.left), set(entry.stays)

    def count(self) -> None:
        """Sum the load up anew."""
        self.load = load_of(self.tasks.values())

    def want(self, task: Task, away: Collection[str]) -> None:
        """An own task came or changed; one that runs elsewhere goes on there as it was agreed."""
        self.own.add(task.name)
        if task.name in self.tasks or (task.name not in away and task.name not in self.left):
            self.tasks[task.name] = task

    def settle(self, tasks: Collection[Task], for_good: bool) -> None:
        """Tasks of others, or own ones that had moved for good, run here."""
        for task in tasks:
            self.tasks[task.name] = task
            self.left.discard(task.name)
        if for_good:
            self.stays |= {task.name for task in tasks}
        self.load = self.load + load_of(tasks)

    def stop(self, name: str) -> None:
        """A task does not run here any longer."""
        self.stays.discard(name)
        task = self.tasks.pop(name, None)
        if task is not None:
            self.load = self.load - task.load

    def set_out(self, tasks: Iterable[Task], movement: int) -> None:
        """Tasks are to move; until that is known they run here and are not offered to others."""
        self.moving |= dict.fromkeys((task.name for task in tasks), movement)

    def leave(self, tasks: Iterable[Task]) -> None:
        """Tasks run elsewhere, not here any more."""
        for task in tasks:
            self.moving.pop(task.name, None)
            self.stop(task.name)

    def come_back(self, tasks: Iterable[Task]) -> None:
        """Tasks run here again, if anybody still wants them."""
        for task in tasks:
            self.moving.pop(task.name, None)
            unwanted = task.origin == self.name and task.name not in self.own
            if task.name not in self.tasks and not unwanted:
                self.tasks[task.name] = task
                self.load = self.load + task.load

    def forget(self, tasks: Iterable[Task], movement: int) -> None:
        """A movement is over: its tasks are not on their way any more."""
        for task in tasks:
            if self.moving.get(task.name) == movement:
                del self.moving[task.name]
