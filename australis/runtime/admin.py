"""The operator's client of a cluster: requests to its nodes."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from australis.deployment.cluster import Cluster
from australis.kernel.errors import AustralisError, UserError, unknown_name
from australis.runtime.certs import load as load_credentials
from australis.runtime.node.links import HELLO, Mismatch, connect, greeted
from australis.runtime.node.server import ask
from australis.runtime.node.transport import Refused, sentence_of
from australis.runtime.sockets import Access
from australis.runtime.token import NoToken, Unproven, read_token

ANSWER_TIMEOUT_S = 2.0
"""The time after which a node counts as not answering."""


class NoAnswer(UserError):
    """A node is down or paused; the request itself was correct."""

    exit_code = 1


class AdminClient:
    """Sends requests to the nodes of a cluster, with a certificate or the cluster's token."""

    def __init__(self, cluster: Cluster, base: Path, identity: str | None = None) -> None:
        self.cluster = cluster
        self._base = base
        self._identity = identity
        # A token may not be there yet, nor any node.
        self._access = None if cluster.tls is None else find_access(cluster, base, identity)

    def ask(
        self, node: str, kind: str, what: Any = None, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Any:
        """Ask one node; raises `NoAnswer` if it does not answer, a `UserError` if it refuses."""
        address = self.cluster.nodes[node].address
        try:
            with connect(self.cluster, node, self._found_access(node), timeout_s) as client:
                if kind != HELLO:
                    greeted(client, self.cluster.name, node)
                return ask(client, kind, what, timeout_s)
        except Mismatch as error:
            raise UserError(f"is not who is meant: {error}", name=address) from None
        except (Refused, Unproven) as error:
            raise UserError(f"refuses: {sentence_of(error)}", name=node) from None
        except OSError:
            raise NoAnswer(f"does not answer at {address}", name=node) from None

    def _found_access(self, node: str) -> Access:
        if self._access is None:
            try:
                self._access = find_access(self.cluster, self._base, self._identity)
            except NoToken as error:
                address = self.cluster.nodes[node].address
                raise NoAnswer(f"does not answer at {address}: {error}", name=node) from None
        return self._access

    def ask_all(
        self, nodes: Iterable[str], kind: str, what: Any = None, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> dict[str, Any]:
        """Ask nodes concurrently; the answer is None for those that do not answer."""

        def answer(node: str) -> Any:
            try:
                return self.ask(node, kind, what, timeout_s)
            except AustralisError:
                return None

        names = list(nodes)
        with ThreadPoolExecutor(max(1, min(len(names), 16))) as pool:
            return dict(zip(names, pool.map(answer, names), strict=True))

    def says_hello(self, node: str, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Whether exactly this node answers at its address in the cluster file.

        One that has no room for this caller answers, too.
        """
        try:
            with connect(self.cluster, node, self._found_access(node), timeout_s) as client:
                hello = ask(client, HELLO, timeout_s=timeout_s)
        except Refused:
            return True
        except (AustralisError, OSError):
            return False
        return bool((hello["cluster"], hello["node"]) == (self.cluster.name, node))


def find_access(cluster: Cluster, base: Path, identity: str | None) -> Access:
    """How to call nodes: with the cluster's token, or where there is TLS the certificate of this
    name, or the first one found: an operator's, a node's or a client's."""
    if cluster.tls is None:
        return read_token(base / cluster.state)
    directory, ca = base / cluster.tls.certificates, base / cluster.tls.ca
    if identity is None:
        names = [*cluster.operators, *cluster.nodes, *cluster.clients]
        identity = next((n for n in names if (base / cluster.tls.key(n)).exists()), None)
    if identity is None:
        raise UserError(
            "holds the certificate of no operator, node or client: see `australis certs --help`",
            name=str(directory),
        )
    return load_credentials(directory, ca, identity)


def check_node(cluster: Cluster, name: str) -> None:
    """Raise a `UserError` if the cluster has no such node."""
    if name not in cluster.nodes:
        sentence = "is not a node of this cluster"
        raise unknown_name(name, cluster.nodes, sentence, heading="nodes", place=cluster.place)
