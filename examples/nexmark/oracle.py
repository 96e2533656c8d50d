"""What the queries should answer, computed by DuckDB over the whole data at once.

The SQL stands in `sql/`, one file per query. It was written from the question, not
from the diagram, and shares no code with Australis. Columns have the names of the
diagram's result; `_stime` is the event time the result must carry.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
TABLES = ("person", "auction", "bid")


def queries() -> list[str]:
    """The names of all queries, in the order of their numbers."""
    return sorted((path.stem for path in HERE.glob("sql/q*.sql")), key=lambda name: int(name[1:]))


def oracle(query: str, data_dir: Path) -> pa.Table:
    """The answer to one query over the files that `generate.py` wrote."""
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.register(name, _without_zone(pq.read_table(data_dir / f"{name}.parquet")))
        answer = connection.sql((HERE / "sql" / f"{query}.sql").read_text()).to_arrow_table()
    return _in_utc(answer)


def _without_zone(table: pa.Table) -> pa.Table:
    """Times as plain UTC, so that DuckDB's results do not depend on the machine's time zone."""
    return _retyped(table, pa.timestamp("us"))


def _in_utc(table: pa.Table) -> pa.Table:
    return _retyped(table, pa.timestamp("us", tz="UTC"))


def _retyped(table: pa.Table, time: pa.DataType) -> pa.Table:
    fields = [
        pa.field(f.name, time if pa.types.is_timestamp(f.type) else f.type) for f in table.schema
    ]
    return table.cast(pa.schema(fields))
