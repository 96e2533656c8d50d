"""The Nexmark oracle against a naive computation in Python, and against the diagrams' columns."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from examples.nexmark.generate import Clock, generate, write
from examples.nexmark.oracle import HERE, oracle, queries

EVENTS, RATE, SEED = 6_000, 150, 3
START = datetime(2024, 1, 1, 23, 59, 41, tzinfo=UTC)
TICK = timedelta(microseconds=1)

Row = dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    write(EVENTS, Clock(RATE, START), SEED, folder)
    return folder


@pytest.fixture(scope="module")
def events() -> dict[str, list[Row]]:
    return {name: table.to_pylist() for name, table in generate(EVENTS, RATE, SEED, START).items()}


def since(time: datetime, seconds: int) -> datetime:
    """The start of the tumbling window, aligned to 1970, that holds this time."""
    at = int(time.timestamp())
    return datetime.fromtimestamp(at - at % seconds, tz=UTC)


def bag(rows: list[Row] | pa.Table) -> Counter[tuple[tuple[str, Any], ...]]:
    listed = rows if isinstance(rows, list) else rows.to_pylist()
    return Counter(tuple(sorted(row.items())) for row in listed)


def test_q5_counts_every_window_on_its_own(data: Path, events: dict[str, list[Row]]) -> None:
    windows: dict[datetime, Counter[int]] = defaultdict(Counter)
    for bid in events["bid"]:
        start = since(bid["date_time"], 2)
        while start > bid["date_time"] - timedelta(seconds=10):
            windows[start][bid["auction"]] += 1
            start -= timedelta(seconds=2)
    expected = []
    for start, counts in windows.items():
        until = start + timedelta(seconds=10)
        expected += [
            {"auction": auction, "bids": n, "until": until, "_stime": until - TICK}
            for auction, n in counts.items()
            if n == max(counts.values())
        ]
    assert bag(oracle("q5", data)) == bag(expected)


def test_q7_reports_all_bids_with_the_highest_price(
    data: Path, events: dict[str, list[Row]]
) -> None:
    windows: dict[datetime, list[Row]] = defaultdict(list)
    for bid in events["bid"]:
        windows[since(bid["date_time"], 10) + timedelta(seconds=10)].append(bid)
    expected = [
        {name: bid[name] for name in ("auction", "bidder", "price", "date_time")}
        | {"until": until, "_stime": until - TICK}
        for until, bids in windows.items()
        for bid in bids
        if bid["price"] == max(b["price"] for b in bids)
    ]
    assert bag(oracle("q7", data)) == bag(expected)


def test_q8_wants_person_and_auction_in_the_same_window(
    data: Path, events: dict[str, list[Row]]
) -> None:
    sold = {(a["seller"], since(a["date_time"], 10)) for a in events["auction"]}
    expected = [
        {"id": p["id"], "name": p["name"], "since": start}
        | {"_stime": start + timedelta(seconds=10) - TICK}
        for p in events["person"]
        if (p["id"], start := since(p["date_time"], 10)) in sold
    ]
    assert expected
    assert bag(oracle("q8", data)) == bag(expected)


def test_q3_matches_auctions_that_came_before_their_seller(
    data: Path, events: dict[str, list[Row]]
) -> None:
    expected = [
        {"name": p["name"], "city": p["city"], "state": p["state"], "auction": a["id"]}
        | {"_stime": max(a["date_time"], p["date_time"])}
        for a in events["auction"]
        for p in events["person"]
        if a["seller"] == p["id"]
        and a["category"] == 10
        and p["state"] in ("OR", "ID", "CA")
        and abs(a["date_time"] - p["date_time"]) <= timedelta(minutes=1)
    ]
    assert bag(oracle("q3", data)) == bag(expected)


def test_q9_leads_with_the_highest_valid_bid(data: Path, events: dict[str, list[Row]]) -> None:
    auctions = {a["id"]: a for a in events["auction"]}
    best: dict[tuple[int, datetime], Row] = {}
    for bid in events["bid"]:
        auction = auctions.get(bid["auction"])
        if auction is None or not auction["date_time"] <= bid["date_time"] <= auction["expires"]:
            continue
        if bid["date_time"] - auction["date_time"] > timedelta(seconds=20):
            continue
        key = (bid["auction"], since(bid["date_time"], 10))
        # Bids come in order of time, so an equal one is a later one.
        if key not in best or bid["price"] > best[key]["price"]:
            best[key] = bid
    expected = {(a, t + timedelta(seconds=10)): b["price"] for (a, t), b in best.items()}
    found = oracle("q9", data).to_pylist()
    assert {(row["auction"], row["until"]): row["price"] for row in found} == expected
    assert len(found) == len(expected)


def test_every_query_has_an_answer_with_an_event_time(data: Path) -> None:
    for query in queries():
        answer = oracle(query, data)
        assert answer.num_rows > 0, query
        assert answer.schema.field("_stime").type == pa.timestamp("us", tz="UTC"), query


def test_every_diagram_has_its_sql_its_opening_comment_and_its_line_in_the_readme() -> None:
    readme = (HERE / "README.md").read_text()
    assert {path.stem for path in HERE.glob("q*.yaml")} == set(queries())
    for query in queries():
        text = (HERE / f"{query}.yaml").read_text()
        opening = re.match(r"(#.*\n)+", text)
        assert opening, query
        assert f"Nexmark query {query[1:]}," in opening[0]
        assert "# Deviation:" in opening[0]
        assert f"diagram: nexmark-{query}\n" in text
        assert f"| [{query}]({query}.yaml) |" in readme
