"""The simulated source: it closes its own buckets, and never stamps below its boundary."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.durations import SECOND
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.options import DpcOptions, LogBounds
from australis.protocols.dpc.proxies import SourceMachine
from australis.sim.dpc.hosts import Costs, SourceHost
from australis.sim.dpc.probes import Checker, Probe
from australis.sim.network import Network
from australis.sim.world import Clock, World


class Entered(Checker):
    """Collects what is durable in the source's log, in the order in which that was reported."""

    def __init__(self) -> None:
        self.buckets: list[Bucket] = []

    def entered(self, source: str, new: object, now: int) -> None:
        self.buckets += list(new)  # type: ignore[call-overload]


def host(offset_us: int = 0, max_log: int | None = None) -> tuple[World, SourceHost, Entered]:
    world, entered = World(Network(Random(1))), Entered()
    options = DpcOptions(bucket_us=SECOND, log=LogBounds(max_buckets=max_log))
    made = SourceHost(
        world, "s", Clock(offset_us), Probe([entered]),
        lambda: SourceMachine("s", ("c",), options), lambda n: f"rows {n}", Costs(), Random(2),
    )  # fmt: skip
    made.boot(SECOND)
    return world, made, entered


def test_a_source_closes_each_bucket_when_it_is_over() -> None:
    world, _, entered = host()
    world.run(SECOND - 1)
    assert entered.buckets == []
    world.run(int(2.5 * SECOND))
    said = [(b.number, b.entered_us, b.batch) for b in entered.buckets]
    assert said == [(0, SECOND, "rows 0"), (1, 2 * SECOND, "rows 1")]


def test_what_a_source_said_while_its_proxy_was_down_is_gone() -> None:
    world, made, entered = host()
    world.run(int(1.5 * SECOND))
    made.crash()
    world.run(int(4.5 * SECOND))
    made.boot(SECOND)
    world.run(int(6.5 * SECOND))
    batches = {b.number: b.batch for b in entered.buckets}
    assert batches == {0: "rows 0", 1: None, 2: None, 3: None, 4: None, 5: "rows 5"}


def test_a_source_whose_log_is_full_drops_what_comes() -> None:
    world, made, entered = host(max_log=3)
    world.run(int(6.5 * SECOND))
    assert [b.number for b in entered.buckets] == [0, 1, 2]
    assert made.dropped == 5


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=6))
def test_a_source_never_stamps_below_its_boundary_whatever_its_clock_does(
    lives: list[tuple[int, int]],
) -> None:
    """Each incarnation has a clock of its own and ends with a crash."""
    world, made, _ = host()
    for offset_s, lasts_s in lives:
        world.run(world.now + lasts_s * SECOND + SECOND // 3)
        made.crash()
        before = made.log().end
        made.clock = Clock(offset_s * SECOND)
        made._local = made.clock.local
        made.boot(SECOND)
        assert made.log().end >= before
    world.run(world.now + 20 * SECOND)
    log = made.log()
    assert [b.number for b in log.read(-1, log.end)] == list(range(log.end + 1))
