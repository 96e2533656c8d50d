"""A producer sends tuples to its subscribers only."""

from __future__ import annotations

from australis.protocols.dpc.messages import Heartbeat
from australis.sim.dpc.probes import Checker


class Subscribed(Checker):
    """Tuples go only to nodes that asked this node for this stream."""

    name = "subscribed"

    def __init__(self) -> None:
        self._asked: set[tuple[str, str, str]] = set()

    def heard(self, node: str, sender: str, heartbeat: Heartbeat) -> None:
        for want in heartbeat.wants:
            if want.log or want.overlay or want.head:
                self._asked.add((node, sender, want.stream))

    def sent(self, node: str, to: str, stream: str) -> None:
        if (node, to, stream) not in self._asked:
            self.fail(f"{node} sends {stream} to {to}, which never subscribed")
