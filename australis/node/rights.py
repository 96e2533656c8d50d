"""What the holder of a certificate may ask of a node, and which streams it may read.

A name in a certificate is that of a node, of a client or of an operator, or of several of them.
Where callers have no certificates all of them know the token of the cluster, and may do everything.
"""

from __future__ import annotations

from enum import Enum

from australis.deployment.cluster import Cluster


class Role(Enum):
    """What a certificate of a cluster is for."""

    NODE = "a node"
    CLIENT = "a client"
    OPERATOR = "an operator"


REQUESTS: dict[str, tuple[Role, ...]] = {
    "hello": tuple(Role),
    "status": tuple(Role),
    "post": tuple(Role),
    "inbox": tuple(Role),
    "snapshot": (Role.NODE,),
    "fault": (Role.OPERATOR,),
    "change": (Role.OPERATOR,),
    "drain": (Role.OPERATOR,),
    "submit": (Role.OPERATOR,),
    "withdraw": (Role.OPERATOR,),
    "define": (Role.NODE,),
    "definition": tuple(Role),
}
"""Who may make each request; whose messages and streams those are is looked at one by one."""


class Rights:
    """The roles of all certificates of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._clients = cluster.clients
        self._roles: dict[str, set[Role]] = {}
        for role, names in (
            (Role.NODE, cluster.nodes),
            (Role.CLIENT, cluster.clients),
            (Role.OPERATOR, cluster.operators),
        ):
            for name in names:
                self._roles.setdefault(name, set()).add(role)

    def knows(self, caller: str) -> bool:
        """Whether a certificate of this name belongs to this cluster."""
        return caller in self._roles

    def is_node(self, caller: str | None) -> bool:
        """Whether the caller may speak for the machines of a node."""
        return caller is None or Role.NODE in self._roles.get(caller, ())

    def why_not(self, caller: str | None, request: str) -> str:
        """Why a caller may not make a request, in one sentence; empty if it may."""
        if request not in REQUESTS:
            return f"unknown action '{request}'"
        if caller is None or self._roles.get(caller, set()) & {*REQUESTS[request]}:
            return ""
        allowed = " or ".join(role.value for role in REQUESTS[request])
        return f"'{caller}' may not ask for '{request}': it is not {allowed} of this cluster"

    def may_read(self, caller: str | None, stream: str, application: str = "") -> bool:
        """Whether a caller may read a stream: a client with a list of streams only these.

        Streams of submitted applications are listed with the application's name: `app.stream`.
        """
        if caller is None or self._roles.get(caller, set()) != {Role.CLIENT}:
            return True
        client = self._clients[caller]
        if application:
            return client.reads is None or f"{application}.{stream}" in client.reads
        return client.reads is None or stream in (client.stream, *client.reads)
