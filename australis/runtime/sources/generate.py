"""Generated network connections, the same ones from the same options.

Ordinary hosts have addresses 10.<site>.x.y (then 11.<site>.x.y and so on). They
differ in how busy they are (Zipf-like, the busiest ones capped) and each uses at
most `PORTS_PER_HOST` ports; by default their number grows with the rate, so that
none makes more than about half of the 100 connections a minute above which the
network-monitoring query considers a source. Two kinds of attack are added:

- a *scan*: one source 203.0.113.x tries `SCAN.connections` different ports;
- a *flood*: one source 198.51.100.x makes `FLOOD.connections` connections to one port.

Attacks depend on the seed alone and not on the site: generators that share a
seed see the same attackers at the same time. `scans` and `floods` say how many
begin per minute. `truth` names them, so that a result can be compared.

Block i is a function of (seed, site, i), and how many rows it has is arithmetic,
so that skipping a billion rows costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from australis.diagram.model import Source
from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.runtime.options import Options
from australis.runtime.sources.attacks import (
    FLOOD,
    SCAN,
    START_US,
    Attack,
    AttackKind,
    ConnectionOptions,
    lot,
    truth,
)
from australis.runtime.sources.base import Chunk, Reader, without_first
from australis.streams.schema import Schema, parse_schema

__all__ = [
    "CONNECTIONS",
    "GENERATE_OPTIONS",
    "GENERATORS",
    "ConnectionOptions",
    "ConnectionReader",
    "read_options",
    "truth",
]

CONNECTIONS: Schema = parse_schema(
    "time timestamp, src string, dst string, port int, protocol string, bytes bigint"
)
GENERATE_OPTIONS = (
    "generator", "speed", "rate", "duration", "seed", "site", "hosts", "scans", "floods", "start",
)  # fmt: skip

BLOCK_ROWS = 16_384
BUSIEST_PER_MINUTE = 45.0
PORTS = np.array([443, 80, 53, 22, 25, 993, 123, 8080], dtype=np.int32)
PORTS_PER_HOST = 4
SERVERS = 200
UDP_PORTS = (53, 123)


def read_options(source: Source) -> ConnectionOptions:
    """The generator's options as a source gives them."""
    given = Options(source, GENERATE_OPTIONS)
    hosts = given.whole("hosts", 0)
    site = given.whole("site", 0)
    if site > 255:
        raise given.wrong(f"has the option site: {site}, which is above 255")
    return ConnectionOptions(
        rate=given.number("rate", 1000.0, above=0),
        duration_us=given.duration_us("duration"),
        seed=given.whole("seed", 1),
        site=site,
        hosts=hosts or None,
        scans=given.number("scans", 1.0),
        floods=given.number("floods", 0.5),
        start_us=given.time_us("start", START_US),
    )


class ConnectionReader:
    """The connections of one site, as a source that can be read again."""

    def __init__(self, options: ConnectionOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = list(columns)
        self._blocks = 0

    @property
    def share(self) -> float | None:
        """See `Reader`."""
        total = self._options.rows
        return None if total is None else min(1.0, self._blocks * BLOCK_ROWS / max(1, total))

    def chunks(self, skip: int) -> Iterator[Chunk]:
        """See `Reader`."""
        block, skip = self._find(skip)
        return without_first(self._from(block), skip)

    def _from(self, block: int) -> Iterator[Chunk]:
        while (ordinary := self._ordinary(block)) > 0:
            yield Chunk(self._block(block, ordinary).select(self._columns))
            block += 1
            self._blocks = block

    def _find(self, skip: int) -> tuple[int, int]:
        """The block that holds the row after `skip` rows, and the rows before it in the block."""
        block = 0
        while (ordinary := self._ordinary(block)) > 0:
            rows = ordinary + sum(hi - lo for _, _, lo, hi in self._attacking(block))
            if rows > skip:
                break
            skip -= rows
            block += 1
        return block, skip

    def _ordinary(self, block: int) -> int:
        total = self._options.rows
        return BLOCK_ROWS if total is None else min(BLOCK_ROWS, total - block * BLOCK_ROWS)

    def _begin_us(self, block: int) -> int:
        """The begin of a block, relative to the start; the last one ends with the run."""
        total = self._options.rows
        if total is not None and block * BLOCK_ROWS >= total:
            return self._options.duration_us or 0
        return int(Fraction(block * BLOCK_ROWS * SECOND) / Fraction(self._options.rate))

    def _attacking(self, block: int) -> Iterator[tuple[AttackKind, Attack, int, int]]:
        """The attacks in a block, each with the range (from, to) of its connections there."""
        since, until = self._begin_us(block), self._begin_us(block + 1)
        for kind in (SCAN, FLOOD):
            for attack in self._options.attacks(kind, since, until):
                begin = attack.start_us - self._options.start_us
                lo = max(0, -((begin - since) // kind.step_us))
                hi = min(kind.connections, max(0, -((begin - until) // kind.step_us)))
                if hi > lo:
                    yield kind, attack, lo, hi

    def _block(self, block: int, ordinary: int) -> pa.RecordBatch:
        parts = [self._ordinary_rows(block, ordinary)]
        parts += [
            self._attack_rows(kind, attack, lo, hi)
            for kind, attack, lo, hi in self._attacking(block)
        ]
        table = pa.Table.from_batches(parts).combine_chunks()
        if len(parts) > 1:
            times = np.concatenate([part.column(0).cast(pa.int64()).to_numpy() for part in parts])
            table = table.take(pa.array(np.argsort(times, kind="stable")))
        return table.combine_chunks().to_batches()[0]

    def _ordinary_rows(self, block: int, count: int) -> pa.RecordBatch:
        options = self._options
        rng = np.random.default_rng((options.seed, 0, options.site, block))
        draws = rng.random((5, count))
        begin = self._begin_us(block)
        # Evenly spread, each somewhere in its own interval: sorted, and never beyond the block.
        offsets = (np.arange(count) + draws[0]) * (SECOND / options.rate)
        room = max(self._begin_us(block + 1) - begin - 1, 0)
        times = options.start_us + begin + np.minimum(offsets.astype(np.int64), room)
        host = np.searchsorted(self._cumulative, draws[1]).clip(0, options.host_count - 1)
        turn = (draws[2] ** 2 * PORTS_PER_HOST).astype(np.int64)
        ports = PORTS[(host + turn) % len(PORTS)]
        servers = (draws[3] * SERVERS).astype(np.int64)
        sizes = (64 * np.exp(draws[4] * 9)).astype(np.int64)
        return self._batch(times, self._sources.take(pa.array(host)), servers, ports, sizes)

    def _attack_rows(self, kind: AttackKind, attack: Attack, lo: int, hi: int) -> pa.RecordBatch:
        number = np.arange(lo, hi)
        times = attack.start_us + number * kind.step_us
        # The same in every block that holds a part of this attack.
        key = (self._options.seed, kind.stream, self._options.site, attack.start_us)
        first = int(lot(*key) * 60_000) + 1
        ports = first + (number * 17 % 5000 if kind is SCAN else number * 0)
        servers = np.full(hi - lo, first % SERVERS)
        sources = pa.array([attack.src]).take(pa.array(np.zeros(hi - lo, dtype=np.int64)))
        sizes = np.full(hi - lo, 60 if kind is SCAN else 1200)
        return self._batch(times, sources, servers, ports.astype(np.int32), sizes)

    def _batch(
        self,
        times: npt.NDArray[np.int64],
        sources: pa.Array,
        servers: npt.NDArray[np.int64],
        ports: npt.NDArray[np.int32],
        sizes: npt.NDArray[np.int64],
    ) -> pa.RecordBatch:
        is_udp = np.isin(ports, UDP_PORTS).astype(np.int64)
        columns = [
            pa.array(times, CONNECTIONS.attributes.field("time").type),
            sources,
            self._servers.take(pa.array(servers)),
            pa.array(ports, pa.int32()),
            pa.array(["tcp", "udp"]).take(pa.array(is_udp)),
            pa.array(sizes, pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=CONNECTIONS.attributes)

    @cached_property
    def _sources(self) -> pa.Array:
        site = self._options.site
        count = range(self._options.host_count)
        return pa.array([f"{10 + (n >> 16)}.{site}.{n >> 8 & 255}.{n & 255}" for n in count])

    @cached_property
    def _servers(self) -> pa.Array:
        return pa.array([f"192.168.{self._options.site}.{n + 1}" for n in range(SERVERS)])

    @cached_property
    def _cumulative(self) -> npt.NDArray[np.float64]:
        """The cumulative shares of the hosts: Zipf-like, the busiest capped."""
        per_minute = self._options.rate * 60
        shares = 1.0 / np.sqrt(np.arange(1, self._options.host_count + 1))
        shares /= shares.sum()
        cap = max(BUSIEST_PER_MINUTE / per_minute, 1.0 / self._options.host_count)
        for _ in range(30):  # the excess goes to the others, which may then exceed the cap
            shares = np.minimum(shares / shares.sum(), cap)
        result: npt.NDArray[np.float64] = np.cumsum(shares / shares.sum())
        return result


def _connections(source: Source) -> Reader:
    for field in source.schema:
        declared = {f.name: f.type for f in CONNECTIONS}
        if declared.get(field.name) != field.type:
            raise UserError(
                f"declares '{field.name} {field.type}', which generated connections do not have"
                f" (they have: {CONNECTIONS})",
                name=source.name,
                place=source.place,
            )
    return ConnectionReader(read_options(source), source.schema.names)


GENERATORS: dict[str, Callable[[Source], Reader]] = {"connections": _connections}
"""The generators, by their names in a diagram."""
