"""The tasks that run here, own and others', and which of them may be moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from australis.protocols.contracts.choices import load_of
from australis.protocols.contracts.costs import Load
from australis.protocols.contracts.events import Carried
from australis.protocols.contracts.terms import Task


class Running:
    """The tasks that run here, and own tasks that run elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: dict[str, Task] = {}
        """All tasks that run here."""
        self.load = Load()
        self.moving: dict[str, int] = {}
        """Tasks that are part of a movement without a receipt, with that movement's number."""
        self.own: set[str] = set()
        """Tasks that own clients want, wherever they run."""
        self.left: set[str] = set()
        """Own tasks that have moved for good."""
        self.stays: set[str] = set()
        """Tasks of others that came for good and may not be forwarded."""

    def begin(self, tasks: Iterable[Task]) -> None:
        """Start with own tasks, all of them here unless the journal says otherwise."""
        self.tasks = {task.name: task for task in tasks}
        self.own = set(self.tasks)

    def restore(self, entry: Carried) -> None:
        """Restore the tasks from a compacted journal."""
        own = {n: t for n, t in self.tasks.items() if t.origin == self.name}
        self.tasks = {n: t for n, t in own.items() if n not in entry.away}
        self.tasks |= {task.name: task for task in entry.taken}
        self.left, self.stays = set(entry.left), set(entry.stays)

    def count(self) -> None:
        """Compute the load anew."""
        self.load = load_of(self.tasks.values())

    def want(self, task: Task, away: Collection[str]) -> None:
        """Add or change an own task; one that runs elsewhere continues there as agreed."""
        self.own.add(task.name)
        if task.name in self.tasks or (task.name not in away and task.name not in self.left):
            self.tasks[task.name] = task

    def settle(self, tasks: Collection[Task], for_good: bool) -> None:
        """Run tasks of others here, or own ones that had moved for good."""
        for task in tasks:
            self.tasks[task.name] = task
            self.left.discard(task.name)
        if for_good:
            self.stays |= {task.name for task in tasks}
        self.load = self.load + load_of(tasks)

    def stop(self, name: str) -> None:
        """Stop a task here."""
        self.stays.discard(name)
        task = self.tasks.pop(name, None)
        if task is not None:
            self.load = self.load - task.load

    def set_out(self, tasks: Iterable[Task], movement: int) -> None:
        """Mark tasks as moving: until the receipt they run here and are not offered again."""
        self.moving |= dict.fromkeys((task.name for task in tasks), movement)

    def leave(self, tasks: Iterable[Task]) -> None:
        """Stop tasks here that run elsewhere now."""
        for task in tasks:
            self.moving.pop(task.name, None)
            self.stop(task.name)

    def come_back(self, tasks: Iterable[Task]) -> None:
        """Run tasks here again, except own tasks that their client has withdrawn."""
        for task in tasks:
            self.moving.pop(task.name, None)
            unwanted = task.origin == self.name and task.name not in self.own
            if task.name not in self.tasks and not unwanted:
                self.tasks[task.name] = task
                self.load = self.load + task.load

    def forget(self, tasks: Iterable[Task], movement: int) -> None:
        """Clear the moving marks of a movement that is over."""
        for task in tasks:
            if self.moving.get(task.name) == movement:
                del self.moving[task.name]
