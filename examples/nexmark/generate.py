"""Generate the events of the Nexmark benchmark: an online auction house.

Of every 50 events one is a new person, three are new auctions and 46 are bids.
Some sellers, bidders and auctions are hot: they get most of the traffic for a
while, then others take their place. Events come at a constant rate, so the time
of an event follows from its number.

Written from the public description of Nexmark. Events are drawn in blocks, each
from its own random generator, so that memory stays small and a longer run
begins with exactly the events of a shorter one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]

START = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")

CYCLE = 50
"""Events until the pattern person, auctions, bids repeats."""
AUCTIONS, BIDS = 3, 46
CYCLES_PER_BLOCK = 2_000

FIRST_ID = 1_000
"""The id of the first person and of the first auction."""
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PEOPLE, OPEN_AUCTIONS = 1_000, 100
LEAD = 10
"""References may run this far ahead: to persons and auctions that are about to appear."""
HOT_FOR = 100
"""So many persons (auctions) later another one becomes the hot one."""
HOT_SELLER, HOT_BIDDER, HOT_AUCTION, HOT_CHANNEL = 0.75, 0.75, 0.5, 0.5
"""The share of events that go to the hot one."""

FIRST_NAMES = ["Ada", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jun"]
LAST_NAMES = ["Adeyemi", "Bauer", "Castillo", "Dubois", "Eriksen", "Fontana", "Gupta", "Haddad"]
CITIES = ["Eugene", "Fresno", "Helena", "Nampa", "Oakland", "Provo", "Reno", "Salem", "Spokane"]
STATES = ["CA", "ID", "MT", "NV", "OR", "UT", "WA"]
CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]

SCHEMAS: dict[str, pa.Schema] = {
    "person": pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("email", pa.string()),
            ("credit_card", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
            ("date_time", TIME),
        ]
    ),
    "auction": pa.schema(
        [
            ("id", pa.int64()),
            ("item_name", pa.string()),
            ("description", pa.string()),
            ("initial_bid", pa.int64()),
            ("reserve", pa.int64()),
            ("date_time", TIME),
            ("expires", TIME),
            ("seller", pa.int64()),
            ("category", pa.int64()),
        ]
    ),
    "bid": pa.schema(
        [
            ("auction", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
            ("channel", pa.string()),
            ("url", pa.string()),
            ("date_time", TIME),
        ]
    ),
}


@dataclass(frozen=True)
class Clock:
    """When events happen: `rate` of them a second, the first one at `start`."""

    rate: float
    start: datetime = START

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1_000_000:
            raise ValueError("the rate must lie between 0 and 1,000,000 events a second")
        if self.start.tzinfo is None:
            raise ValueError("the start needs a time zone, for example 2024-01-01T00:00:00+00:00")

    def at(self, number: Ints) -> Ints:
        """The times of these events, in microseconds since 1970."""
        since = self.start - datetime(1970, 1, 1, tzinfo=UTC)
        first = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        times: Ints = first + np.floor(number * (1_000_000 / self.rate)).astype(np.int64)
        return times

    @property
    def open_us(self) -> int:
        """How long an auction stays open on average, so that OPEN_AUCTIONS are open at a time."""
        return int(OPEN_AUCTIONS * CYCLE / AUCTIONS * 1_000_000 / self.rate)


def generate(
    events: int, rate: float = 1_000, seed: int = 1, start: datetime = START
) -> dict[str, pa.Table]:
    """The tables person, auction and bid of the first `events` events, in order of time."""
    parts = list(blocks(events, Clock(rate, start), seed))
    return {
        name: pa.concat_tables([part[name] for part in parts]) if parts else schema.empty_table()
        for name, schema in SCHEMAS.items()
    }


def blocks(events: int, clock: Clock, seed: int) -> Iterator[dict[str, pa.Table]]:
    """The same, block by block."""
    size = CYCLES_PER_BLOCK * CYCLE
    makers = {"person": persons, "auction": auctions, "bid": bids}
    for block in range(-(-events // size)):
        first = block * CYCLES_PER_BLOCK
        count = rows(min(events - block * size, size))
        # Always a whole block, cut to length afterwards: what is drawn must not depend on `events`.
        yield {
            name: make(np.random.default_rng([seed, block, kind]), first, clock).slice(
                0, count[name]
            )
            for kind, (name, make) in enumerate(makers.items())
        }


def rows(events: int) -> dict[str, int]:
    """How many rows of each kind the first `events` events hold."""
    cycles, more = divmod(events, CYCLE)
    begun = 1 + AUCTIONS
    return {
        "person": cycles + min(more, 1),
        "auction": cycles * AUCTIONS + min(max(more - 1, 0), AUCTIONS),
        "bid": cycles * BIDS + max(more - begun, 0),
    }


def persons(rng: np.random.Generator, first_cycle: int, clock: Clock) -> pa.Table:
    """The persons of one block."""
    number = first_cycle + np.arange(CYCLES_PER_BLOCK)
    n = len(number)
    name = _joined([_pick(rng, FIRST_NAMES, n), _pick(rng, LAST_NAMES, n)], " ")
    email = _joined([_words(rng, n, 7), _words(rng, n, 5)], "@", ending=".com")
    card = _joined([_digits(rng, n) for _ in range(4)], " ")
    return _table(
        "person",
        id=FIRST_ID + number,
        name=name,
        email=email,
        credit_card=card,
        city=_pick(rng, CITIES, n),
        state=_pick(rng, STATES, n),
        date_time=clock.at(number * CYCLE),
    )


def auctions(rng: np.random.Generator, first_cycle: int, clock: Clock) -> pa.Table:
    """The auctions of one block."""
    number = first_cycle * AUCTIONS + np.arange(CYCLES_PER_BLOCK * AUCTIONS)
    n = len(number)
    cycle = number // AUCTIONS
    opened = clock.at(cycle * CYCLE + 1 + number % AUCTIONS)
    hot = cycle // HOT_FOR * HOT_FOR
    seller = _mixed(rng, HOT_SELLER, hot, _recent(rng, cycle, ACTIVE_PEOPLE))
    initial = _prices(rng, n)
    return _table(
        "auction",
        id=FIRST_ID + number,
        item_name=_words(rng, n, 12),
        description=_words(rng, n, 40),
        initial_bid=initial,
        reserve=initial + _prices(rng, n),
        date_time=opened,
        expires=opened + 1_000 + rng.integers(0, 2 * clock.open_us + 1, n),
        seller=FIRST_ID + seller,
        category=rng.integers(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES, n),
    )


def bids(rng: np.random.Generator, first_cycle: int, clock: Clock) -> pa.Table:
    """The bids of one block."""
    number = first_cycle * BIDS + np.arange(CYCLES_PER_BLOCK * BIDS)
    n = len(number)
    cycle = number // BIDS
    newest = cycle * AUCTIONS + AUCTIONS - 1
    hot_auction = newest // HOT_FOR * HOT_FOR
    # One beside the hot seller, who should not bid for what he sells.
    hot_bidder = cycle // HOT_FOR * HOT_FOR + 1
    auction = _mixed(rng, HOT_AUCTION, hot_auction, _recent(rng, newest, OPEN_AUCTIONS))
    bidder = _mixed(rng, HOT_BIDDER, hot_bidder, _recent(rng, cycle, ACTIVE_PEOPLE))
    channel, url = _channels(rng, n)
    return _table(
        "bid",
        auction=FIRST_ID + auction,
        bidder=FIRST_ID + bidder,
        price=_prices(rng, n),
        channel=channel,
        url=url,
        date_time=clock.at(cycle * CYCLE + 1 + AUCTIONS + number % BIDS),
    )


def _channels(rng: np.random.Generator, n: int) -> tuple[pa.Array, pa.Array]:
    """Channel and address of bids: four well-known channels, or one of ten thousand."""
    hot = rng.random(n) < HOT_CHANNEL
    other = rng.integers(0, 10_000, n)
    page = _joined(
        [pa.repeat("https://auctions.example", n), *(_words(rng, n, 4) for _ in range(3))],
        "/",
        ending="/item?lang=en",
    )
    named = hot | (rng.random(n) < 0.1)
    numbered = _joined([page, pa.array(other).cast(pa.string())], "&channel_id=")
    small = _joined([pa.repeat("channel", n), pa.array(other).cast(pa.string())], "-")
    channel = pc.if_else(pa.array(hot), _pick(rng, CHANNELS, n), small)
    return channel, pc.if_else(pa.array(named), page, numbered)


def _mixed(rng: np.random.Generator, share: float, hot: Ints, cold: Ints) -> Ints:
    """The hot one for this share of the events, otherwise the cold one."""
    return np.where(rng.random(len(hot)) < share, hot, cold)


def _recent(rng: np.random.Generator, newest: Ints, span: int) -> Ints:
    """For each event one of the last `span` up to `newest`, or of the LEAD that follow."""
    return rng.integers(np.maximum(newest - span, 0), newest + LEAD + 1)


def _prices(rng: np.random.Generator, n: int) -> Ints:
    """Prices in cents from one to a million, even on a logarithmic scale."""
    return np.rint(10 ** (6 * rng.random(n)) * 100).astype(np.int64)


def _pick(rng: np.random.Generator, choices: list[str], n: int) -> pa.Array:
    return pa.array(choices).take(pa.array(rng.integers(0, len(choices), n)))


def _words(rng: np.random.Generator, n: int, length: int) -> pa.Array:
    letters = rng.integers(ord("a"), ord("z") + 1, (n, length), dtype=np.uint8)
    fixed = pa.Array.from_buffers(pa.binary(length), n, [None, pa.py_buffer(letters)])
    return fixed.cast(pa.binary()).cast(pa.string())


def _digits(rng: np.random.Generator, n: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(rng.integers(0, 10_000, n)).cast(pa.string()), 4, "0")


def _joined(parts: list[pa.Array], separator: str, ending: str = "") -> pa.Array:
    text = pc.binary_join_element_wise(*parts, separator)
    return pc.binary_join_element_wise(text, ending, "") if ending else text


def _table(kind: str, /, **columns: Any) -> pa.Table:
    schema = SCHEMAS[kind]
    return pa.table([pa.array(columns[f.name]).cast(f.type) for f in schema], schema=schema)


def write(events: int, clock: Clock, seed: int, out: Path) -> dict[str, int]:
    """Write person.parquet, auction.parquet and bid.parquet; returns their rows."""
    out.mkdir(parents=True, exist_ok=True)
    writers = {name: pq.ParquetWriter(out / f"{name}.parquet", s) for name, s in SCHEMAS.items()}
    written = dict.fromkeys(SCHEMAS, 0)
    try:
        for block in blocks(events, clock, seed):
            for name, table in block.items():
                writers[name].write_table(table)
                written[name] += table.num_rows
    finally:
        for writer in writers.values():
            writer.close()
    return written


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Generate events of the Nexmark benchmark: person.parquet, auction.parquet"
        " and bid.parquet, each in order of date_time. The same options give the same files.",
        epilog="Example: %(prog)s --events 1000000 --rate 10000 covers 100 seconds of event time."
        " The queries beside this file read their data from the default folder.",
    )
    parser.add_argument(
        "--events",
        type=int,
        default=100_000,
        metavar="N",
        help="events in all: of 50, one is a person, 3 are auctions, 46 are bids (%(default)s)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=1_000,
        metavar="R",
        help="events per second of event time, at most 1000000; it sets how much time the events"
        " cover and how long auctions stay open, not how fast they are written (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="S", help="another seed, other events (%(default)s)"
    )
    parser.add_argument(
        "--start",
        type=datetime.fromisoformat,
        default=START,
        metavar="TIME",
        help="time of the first event, with its zone (%(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "data",
        metavar="DIR",
        help="folder for the files (%(default)s)",
    )
    return parser


def main() -> None:
    """The command line."""
    parser = _arguments()
    options = parser.parse_args()
    if options.events < 0 or options.seed < 0:
        parser.error("--events and --seed cannot be negative")
    try:
        clock = Clock(options.rate, options.start)
    except ValueError as error:
        parser.error(str(error))
    for name, count in write(options.events, clock, options.seed, options.out).items():
        print(f"{options.out / name}.parquet: {count:,} rows")


if __name__ == "__main__":
    main()
