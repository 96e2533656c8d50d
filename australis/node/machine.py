"""The composition of the machines of one node."""

from __future__ import annotations

from collections.abc import Iterator

from australis.kernel.machine import Effect, Event
from australis.node.hosts import MachineHost


class NodeMachine:
    """Owns the machines of a node, routes events to them and executes their effects."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts: dict[str, MachineHost] = {}

    def open(self, host: MachineHost) -> None:
        """Add a machine, which runs here from now on."""
        assert host.name not in self.hosts, f"'{host.name}' runs already"
        self.hosts[host.name] = host

    def close(self, machine: str) -> MachineHost | None:
        """End a machine; events in flight to it will have no effects."""
        return self.hosts.pop(machine, None)

    def runs(self, machine: str) -> bool:
        """Whether a machine runs here."""
        return machine in self.hosts

    def handle(self, machine: str, event: Event, now: int) -> Iterator[Effect]:
        """Hand an event to its machine, and execute each effect before the next is yielded."""
        host = self.hosts.get(machine)
        if host is None:
            return
        for effect in host.machine.handle(event, now):
            yield effect
            host.perform(effect)
