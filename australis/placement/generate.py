"""Random networks and queries like those of the paper's experiments (ants 4).

The paper gives no values for its classes of machines and links: these are chosen here.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from australis.kernel.errors import UserError
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.queueing.links import Wire

SPEEDS = (1.0, 2.0, 4.0)
"""The speed classes of servers."""
STUB = Wire(12.5e6, 0.001)
"""A link inside a stub."""
ACCESS = (Wire(12.5e6, 0.002), Wire(12.5e6, 0.004))
"""Links from a stub to its transit server."""
TRANSIT = (Wire(125e6, 0.005), Wire(125e6, 0.010), Wire(125e6, 0.015))
"""Links between transit servers."""
STUBS = 3
"""The number of stubs at each transit server."""
STUB_SERVERS = 4
"""The number of servers in a stub."""
BOUND = 0.9


def transit_stub(size: int, rng: Random) -> Network:
    """A transit-stub network: stubs of servers, connected by a few transit servers.

    >>> len(transit_stub(30, Random(1)).servers)
    30
    """
    if size < 2:
        raise UserError(f"should have at least two servers, not {size}", name="network")
    transits = max(1, round(size / (1 + STUBS * STUB_SERVERS)))
    names = [f"t{n}" for n in range(transits)]
    links: dict[tuple[str, str], Wire] = {}
    for at, name in enumerate(names[1:], 1):
        links[names[rng.randrange(at)], name] = rng.choice(TRANSIT)
    for _ in range(transits // 2):
        here, there = rng.sample(names, 2)
        _link(links, here, there, rng.choice(TRANSIT))
    stubs: list[list[str]] = [[] for _ in range(min(transits * STUBS, size - transits))]
    for n in range(size - transits):
        stub = stubs[n % len(stubs)]
        name = f"s{n % len(stubs)}.{len(stub)}"
        if stub:
            links[rng.choice(stub), name] = STUB
        stub.append(name)
        if len(stub) > 2 and rng.random() < 0.5:
            _link(links, rng.choice(stub[:-1]), name, STUB)
    for n, stub in enumerate(stubs):
        links[names[n % transits], stub[0]] = rng.choice(ACCESS)
        if rng.random() < 0.3:
            _link(links, rng.choice(names), rng.choice(stub), rng.choice(ACCESS))
    everybody = [*names, *(name for stub in stubs for name in stub)]
    return Network.both_ways([_server(name, rng) for name in everybody], links)


def _link(links: dict[tuple[str, str], Wire], here: str, there: str, wire: Wire) -> None:
    """Add a link unless the two servers have one already."""
    if (here, there) not in links and (there, here) not in links:
        links[here, there] = wire


def _server(name: str, rng: Random) -> Server:
    return Server(name, rng.choice(SPEEDS), BOUND)


def query(
    name: str,
    network: Network,
    tasks: int,
    rng: Random,
    rate: float = 30.0,
    work: float = 1.0,
) -> Query:
    """A query with a number of tasks: a chain, and from four tasks on also joins and splits.

    Tasks do 1 to 5 ms of work for a tuple, times `work`. Its producers and consumers are at
    different servers if the network has enough.

    >>> made = query("q", transit_stub(20, Random(1)), 8, Random(2))
    >>> len(made.tasks), made.producers[0].rate > 0
    (8, True)
    """
    if tasks < 1:
        raise UserError(f"should have at least one task, not {tasks}", name=name)
    joins = rng.randint(0, min(2, tasks // 4))
    splits = rng.randint(0, min(1, (tasks - joins) // 4))
    trunk = tasks - joins - splits
    made = [Task(f"{name}.1", (f"{name}.p0",), *_task(rng, work))]
    made += [
        Task(f"{name}.{n}", (f"{name}.{n - 1}",), *_task(rng, work)) for n in range(2, trunk + 1)
    ]
    producers, sides = [f"{name}.p0"], []
    for number in range(joins):
        into = rng.randrange(1, trunk)
        producers.append(f"{name}.p{number + 1}")
        side = Task(f"{name}.j{number}", (producers[-1],), *_task(rng, work))
        made[into] = replace(made[into], inputs=(*made[into].inputs, side.name), makes=0.5)
        sides.append(side)
    made = [*sides, *made]  # inputs come first
    ends = [f"{name}.{trunk}"]
    for number in range(splits):
        from_ = f"{name}.{rng.randrange(1, trunk)}"
        made.append(Task(f"{name}.s{number}", (from_,), *_task(rng, work)))
        ends.append(made[-1].name)
    places = rng.sample(sorted(network.servers), min(len(network.servers), len(producers) + 2))
    return Query(
        name,
        tuple(
            Producer(p, places[n % len(places)], rate * rng.uniform(0.5, 1.5), _size(rng))
            for n, p in enumerate(producers)
        ),
        tuple(made),
        tuple(Consumer(f"{name}.c{n}", places[-1 - n], end) for n, end in enumerate(ends)),
    )


def similar(
    name: str,
    network: Network,
    tasks: int,
    rng: Random,
    rate: float = 30.0,
    streams: int = 3,
    kinds: int = 2,
    state_bytes: float = 0.0,
) -> Query:
    """A query that may share work with others: the task at each place in the chain is one of
    `kinds` kinds, and the chain begins with one of `streams` streams of the network. Every third
    task is stateful if `state_bytes` is positive.

    >>> net = transit_stub(20, Random(1))
    >>> one, other = (similar(n, net, 3, Random(2), kinds=1) for n in "ab")
    >>> list(one.signatures.values()) == list(other.signatures.values())
    True
    """
    stream = rng.randrange(streams)
    at = sorted(network.servers)[stream * len(network.servers) // streams]
    source = Random(stream)  # equal stream names give equal streams
    made = Producer(
        f"{name}.p", at, rate * source.uniform(0.5, 1.5), _size(source), f"stream {stream}"
    )
    line: list[Task] = []
    for place in range(tasks):
        kind = rng.randrange(kinds)
        before = line[-1].name if line else made.name
        does = Random(place * kinds + kind)
        remembers = state_bytes if place % 3 == 2 else 0.0
        work, makes, size = _task(does, 1.0)
        line.append(
            Task(f"{name}.{place}", (before,), work, makes, size, f"{place}.{kind}", remembers)
        )
    others = [server for server in sorted(network.servers) if server != at]
    consumer = Consumer(f"{name}.c", rng.choice(others or [at]), line[-1].name)
    return Query(name, (made,), tuple(line), (consumer,))


def _task(rng: Random, work: float) -> tuple[float, float, float]:
    """The work for a tuple, the number of tuples made of one, and their size."""
    return work * rng.uniform(0.001, 0.005), rng.uniform(0.6, 1.1), _size(rng)


def _size(rng: Random) -> float:
    return float(rng.choice((200, 500, 1_000, 2_000)))
