"""`australis bench kernel`: our simulator against simpy.

Both sides run the same network of nodes in pairs: a node that receives a message sends one back,
over links with latency, jitter and order, from the same seed. Ours is a `World` with a `Network`,
and a pure machine on a `Host` for each node. The baseline is what simpy's users write: a process
for each node that waits at a `Store`, and a timeout for each message under way that puts it there;
a callback on the timeout is cheaper than the process per message of simpy's own example.

Time is the CPU time of the process, which other load hardly affects.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any

from australis.kernel.machine import Effect, Event, Message, MessageReceived, Send
from australis.sim.network import Link, Network
from australis.sim.world import Host, World

if TYPE_CHECKING:
    import simpy

LATENCY_US = 1_000
JITTER_US = 500
SEED = 1
TARGET = 3.0

Say = Callable[[str], None]
Side = Callable[[int, int], int]
"""Runs this number of nodes for this number of simulated microseconds; returns the messages
delivered.
"""


def measure(nodes: int, messages: int, rounds: int, say: Say = print) -> dict[str, Any]:
    """Run both sides, alternately; return the result as `--json` prints it."""
    import_module("simpy")  # a missing library is reported before anything is measured
    until_us = messages * (LATENCY_US + JITTER_US // 2) // nodes
    sides: dict[str, Side] = {"ours": australis_side, "baseline": simpy_side}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, run in sides.items():
            rate = _rate(run, nodes, until_us)
            if number:
                rates[name].append(rate)
            say(f"{f'round {number}' if number else 'warm-up'}, {name}: {rate:,.0f} messages/s")
    return _result(rates, nodes, messages, rounds)


def _rate(run: Side, nodes: int, until_us: int) -> float:
    gc.collect()
    began = time.process_time()
    delivered = run(nodes, until_us)
    return delivered / (time.process_time() - began)


def _result(
    rates: dict[str, list[float]], nodes: int, messages: int, rounds: int
) -> dict[str, Any]:
    pairs = zip(rates["ours"], rates["baseline"], strict=True)
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    sides = {
        name: {"messages_per_s": statistics.median(all_rates), "all_messages_per_s": all_rates}
        for name, all_rates in rates.items()
    }
    target = {"name": "messages", "min": TARGET, "value": ratio, "ok": ratio >= TARGET}
    return {
        "bench": "kernel",
        "nodes": nodes,
        "messages": messages,
        "rounds": rounds,
        **sides,
        "ratios": {"messages": ratio},
        "targets": [target],
    }


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    ours, theirs = (result[side]["messages_per_s"] for side in ("ours", "baseline"))
    (target,) = result["targets"]
    verdict = "ok" if target["ok"] else "MISSED"
    return "\n".join(
        [
            f"ping-pong among {result['nodes']:,} nodes, {result['messages']:,} messages,"
            f" median of {result['rounds']}",
            f"  {'':24}{'Australis':>12}{'simpy':>12}{'ratio':>8}",
            f"  {'messages per CPU second':24}{ours:>12,.0f}{theirs:>12,.0f}"
            f"{target['value']:>8.2f}",
            f"  target messages >= {target['min']}: {target['value']:.2f} {verdict}",
        ]
    )


# --- ours ----------------------------------------------------------------------------


class Ball(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The message that two players exchange."""

    hits: int


class Served(Event, frozen=True, gc=False):
    """The event that begins the exchange."""

    to: str


class Player:
    """A machine that answers every message."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Answer a message, or send the first one."""
        if type(event) is MessageReceived:
            ball: Any = event.message
            return (Send(event.sender, Ball(ball.hits + 1)),)
        assert isinstance(event, Served)
        return (Send(event.to, Ball(0)),)


def australis_side(nodes: int, until_us: int) -> int:
    """The number of messages that our world delivers."""
    world = World(Network(Random(SEED), Link(LATENCY_US, JITTER_US)))
    for name, _ in _pairs(nodes):
        Host(world, name)
    for name, other in _pairs(nodes):
        world.hosts[name].start(Player(), Served(other))
    world.run(until_us)
    return world.delivered


def _pairs(nodes: int) -> list[tuple[str, str]]:
    """The pairs of nodes that exchange messages."""
    return [(f"node{i}", f"node{i ^ 1}") for i in range(nodes - nodes % 2)]


# --- simpy ---------------------------------------------------------------------------


class Cable:
    """A link of the baseline: latency, jitter, and messages in order."""

    def __init__(self, env: simpy.Environment, inbox: simpy.Store, rng: Random) -> None:
        self._env = env
        self._put = inbox.put
        self._random = rng.random
        self._free_at: float = 0

    def send(self, message: int) -> None:
        """Put a message into the inbox at the other end when its latency is over."""
        now = self._env.now
        arrives = max(now + LATENCY_US + int(JITTER_US * self._random()), self._free_at)
        self._free_at = arrives
        self._env.timeout(arrives - now, message).callbacks.append(self._arrive)

    def _arrive(self, timeout: simpy.Event) -> None:
        self._put(timeout.value)


class Court:
    """The baseline's nodes, and the number of messages they received."""

    def __init__(self) -> None:
        self.delivered = 0

    def player(self, inbox: simpy.Store, cable: Cable) -> Generator[simpy.Event, int, None]:
        """Answer every message."""
        while True:
            hits = yield inbox.get()
            self.delivered += 1
            cable.send(hits + 1)


def simpy_side(nodes: int, until_us: int) -> int:
    """The number of messages that simpy delivers."""
    import simpy

    env, rng, court = simpy.Environment(), Random(SEED), Court()
    inboxes = {name: simpy.Store(env) for name, _ in _pairs(nodes)}
    for name, other in _pairs(nodes):
        cable = Cable(env, inboxes[other], rng)
        env.process(court.player(inboxes[name], cable))
        cable.send(0)
    env.run(until=until_us)
    return court.delivered
