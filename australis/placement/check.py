"""Checks for queries that no placement can run on a network."""

from __future__ import annotations

from australis.kernel.errors import UserError
from australis.kernel.names import known_names
from australis.placement.network import Network
from australis.placement.queries import Query


def check_ends(query: Query, network: Network) -> None:
    """Refuse a query whose producers and consumers are not on the network or not connected."""
    for end, at in query.pinned.items():
        if at not in network.servers:
            hint = known_names(at, network.servers, "servers")
            raise UserError(f"has {end} at {at}, which is not a server ({hint})", name=query.name)
    for consumer in query.consumers:
        for producer in query.producers:
            if network.way(producer.at, consumer.at) is None:
                raise UserError(
                    f"has no way from {producer.name} at {producer.at} to {consumer.name} at"
                    f" {consumer.at}",
                    name=query.name,
                )


def check_room(query: Query, network: Network) -> None:
    """Refuse a query with a task that exceeds the capacity of every server."""
    best = max(network.servers.values(), key=lambda server: server.speed * server.bound)
    for task in query.tasks:
        rate = sum(edge.rate for edge in query.incoming[task.name])
        load = rate * task.work / best.speed
        if load >= 1 or load > best.bound:
            raise UserError(
                f"fits nowhere: {task.name} alone would use {load:.2f} of {best.name}, which can do"
                f" most and may be used to {best.bound:g}",
                name=query.name,
            )
