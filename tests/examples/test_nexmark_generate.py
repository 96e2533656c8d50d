"""The Nexmark generator: proportions, order, hot spots, and the same events every time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from examples.nexmark.generate import CYCLE, CYCLES_PER_BLOCK, Clock, generate, rows, write

BLOCK = CYCLE * CYCLES_PER_BLOCK


def test_of_fifty_events_one_is_a_person_three_are_auctions_the_rest_bids() -> None:
    assert rows(50) == {"person": 1, "auction": 3, "bid": 46}
    assert rows(53) == {"person": 2, "auction": 5, "bid": 46}
    tables = generate(1_234)
    assert {name: table.num_rows for name, table in tables.items()} == rows(1_234)
    assert sum(rows(1_234).values()) == 1_234


def test_no_two_events_share_a_time_and_each_table_is_in_order() -> None:
    tables = generate(BLOCK + 500)
    times = [t.as_py() for table in tables.values() for t in table["date_time"]]
    assert len(set(times)) == BLOCK + 500
    for table in tables.values():
        ordered = table["date_time"].to_pylist()
        assert ordered == sorted(ordered)


def test_the_seed_decides_and_a_longer_run_begins_with_the_shorter_one() -> None:
    short, long = generate(777, seed=5), generate(BLOCK + 777, seed=5)
    assert all(long[name].slice(0, short[name].num_rows) == short[name] for name in short)
    assert generate(777, seed=6)["bid"] != short["bid"]


def test_half_of_the_bids_go_to_hot_auctions() -> None:
    bids = generate(50_000)["bid"]
    counts = Counter(bids["auction"].to_pylist())
    hot = sum(n for auction, n in counts.items() if auction % 100 == 0)
    assert 0.48 < hot / bids.num_rows < 0.55


def test_ids_and_expiry_make_sense() -> None:
    tables = generate(50_000)
    auction = tables["auction"]
    assert auction["id"].to_pylist() == list(range(1_000, 1_000 + auction.num_rows))
    assert pc.all(pc.less(auction["date_time"], auction["expires"])).as_py()
    assert pc.min(tables["bid"]["auction"]).as_py() >= 1_000
    assert pc.max(tables["bid"]["price"]).as_py() <= 100_000_000


def test_the_files_hold_what_generate_returns(tmp_path: Path) -> None:
    written = write(3_000, Clock(1_000), 1, tmp_path)
    assert written == rows(3_000)
    for name, table in generate(3_000).items():
        assert pq.read_table(tmp_path / f"{name}.parquet") == table


@pytest.mark.parametrize("rate", [0, -1, 2_000_000])
def test_a_rate_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        generate(10, rate=rate)
