"""Injected faults: of a node's process on this machine, and of the network between nodes."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from australis.deployment.cluster import Cluster
from australis.kernel.errors import UserError, unknown_name
from australis.runtime.admin import AdminClient, NoAnswer, check_node
from australis.runtime.processes import named_in, number, send
from australis.runtime.supervise import pid_file


def check_allowed(cluster: Cluster) -> None:
    """Raise a `UserError` unless the cluster file allows fault injection."""
    if not cluster.faults:
        raise UserError(
            "does not allow injected faults: its file must say 'faults: allowed'",
            name=cluster.name,
            place=cluster.place_of("faults"),
        )


def signal_node(cluster: Cluster, base: Path, node: str, what: signal.Signals) -> int:
    """Signal the process of a node; returns the process id."""
    check_allowed(cluster)
    check_node(cluster, node)
    process = named_in(pid_file(base / cluster.state, node))
    if process is None or not send(process, what):
        raise UserError("does not run on this machine", name=node, place=cluster.place)
    return number(process)


class Network:
    """The network of a cluster, with injected faults."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._cluster = admin.cluster
        check_allowed(self._cluster)

    def cut(self, node: str, other: str, *, one_way: bool = False) -> None:
        """Drop all messages between two nodes; one way: only those that the first one receives."""
        self._check_pair(node, other)
        if one_way:
            self._tell(node, kind="cut", node=other, out=False)
        else:
            self._tell_both(self._ends(node, other), kind="cut")

    def slow(self, node: str, other: str, seconds: float, *, one_way: bool = False) -> None:
        """Delay every message by `seconds`; one way: only those that the first one receives."""
        self._check_pair(node, other)
        if other in self._cluster.clients:
            raise UserError("is a client: its network can be cut, not slowed", name=other)
        ends = [(other, node)] if one_way else self._ends(node, other)
        self._tell_both(ends, kind="slow", seconds=seconds)

    def heal(self, node: str, other: str | None = None) -> list[str]:
        """End the faults between two nodes, or at one; returns those that do not answer."""
        if other is not None:
            self._check_pair(node, other)
        check_node(self._cluster, node)
        everyone = [n for n in (*self._cluster.nodes, *self._cluster.clients) if n != node]
        silent: dict[str, None] = {}
        for peer in everyone if other is None else [other]:
            for one, its_peer in self._ends(node, peer):
                try:
                    self._tell(one, kind="heal", node=its_peer)
                except NoAnswer:
                    silent[one] = None
        return list(silent)

    def _ends(self, node: str, other: str) -> list[tuple[str, str]]:
        """Both ends of a connection, without that of a client."""
        ends = [(node, other), (other, node)]
        return [(one, peer) for one, peer in ends if one in self._cluster.nodes]

    def _check_pair(self, node: str, other: str) -> None:
        check_node(self._cluster, node)
        known = [*self._cluster.nodes, *self._cluster.clients]
        if other not in known:
            raise unknown_name(
                other,
                known,
                "is neither a node nor a client of this cluster",
                place=self._cluster.place,
            )
        if node == other:
            raise UserError("is one node: name two", name=node)

    def _tell_both(self, ends: list[tuple[str, str]], **what: Any) -> None:
        """Inject a fault at both ends of a connection, or at neither."""
        done: list[tuple[str, str]] = []
        for one, peer in ends:
            try:
                self._tell(one, node=peer, **what)
            except UserError:
                for began, its_peer in done:
                    with suppress(NoAnswer):
                        self._tell(began, kind="heal", node=its_peer)
                raise
            done.append((one, peer))

    def _tell(self, to: str, **what: Any) -> None:
        self._admin.ask(to, "fault", what)
