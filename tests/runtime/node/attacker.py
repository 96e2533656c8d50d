"""A process that attacks a cluster: a flood of connections, readers that never read, a mad guest.

python attacker.py CLUSTER SECONDS [IDENTITY]: prints as JSON how much it did.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from australis.deployment.cluster import Cluster, NodePlace
from australis.protocols.dpc.messages import Heartbeat, SubscriptionState
from australis.runtime.admin import find_access
from australis.runtime.client import load_nodes
from australis.runtime.listener import raise_descriptor_limit
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.links import connect, pack
from australis.runtime.node.transport import NETWORK_ERRORS, NodeConnection
from australis.runtime.node.wire import Wire
from australis.runtime.sockets import Access

HELD = 1500
"""The connections that a flood holds open, to one port."""
Open = Callable[[], NodeConnection]


def flood(port: int, until: float, done: Counter[str]) -> None:
    """Open connections that say nothing, and hold the last of them."""
    held: list[socket.socket] = []
    while time.monotonic() < until:
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), 1))
            done["connections"] += 1
        if len(held) > HELD:
            held.pop(0).close()


def never_read(call: Open, cluster: str, until: float, done: Counter[str]) -> None:
    """Ask for everything there is, in several names, and read nothing of it."""
    wire, connections = Wire(cluster, FAMILIES), []
    while done["sleepers"] < 4 and time.monotonic() < until:
        name = f"guest sleeper {done['sleepers']}"
        with suppress(*NETWORK_ERRORS):
            reading, asking = call(), call()
            connections += [reading, asking]
            reading.call("inbox", msgspec.msgpack.encode((name, 1)))
            want = SubscriptionState("counts", True, True, True, 0, 0, 0, 1 << 38)
            list(
                asking.call("post", pack([wire.encode(name, "counts@a", Heartbeat(1, 1, (want,)))]))
            )
            done["sleepers"] += 1
    time.sleep(max(0.0, until - time.monotonic()))


def rave(call: Open, cluster: str, until: float, done: Counter[str]) -> None:
    """Send heartbeats, two hundred at a time, as fast as they are taken."""
    wire = Wire(cluster, FAMILIES)
    want = SubscriptionState("counts", True, True, True, -1, -1, -1, 1 << 38)
    numbers = itertools.count(1)
    while time.monotonic() < until:
        with suppress(*NETWORK_ERRORS), call() as client:
            while time.monotonic() < until:
                beats = [Heartbeat(1, next(numbers), (want,)) for _ in range(200)]
                body = pack([wire.encode("guest mad", "counts@a", beat) for beat in beats])
                list(client.call("post", body))
                done["heartbeats"] += len(beats)


def attack(cluster: Cluster, access: Access, seconds: float) -> Counter[str]:
    """All of it at once against node a."""
    done: Counter[str] = Counter()
    until = time.monotonic() + seconds
    place: NodePlace = cluster.nodes["a"]
    call = partial(connect, cluster, "a", access)
    assert place.metrics is not None
    threads = [
        threading.Thread(target=flood, args=(place.port, until, done)),
        threading.Thread(target=flood, args=(place.metrics, until, done)),
        threading.Thread(target=never_read, args=(call, cluster.name, until, done)),
        threading.Thread(target=rave, args=(call, cluster.name, until, done)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


if __name__ == "__main__":
    raise_descriptor_limit()
    file, seconds, *identity = sys.argv[1:]
    found, base = load_nodes(Path(file))
    print(
        json.dumps(attack(found, find_access(found, base, *(identity or [None])), float(seconds)))
    )
