"""Hostile bytes for every kind of source, in a process of their own.

    python -m tests.runtime.source_fuzzing jsonl --seconds 600 --seed 1

A round makes an input from its seed, reads it as a source does, and checks that every line or row
became a row or a rejected row with a reason, and that every accepted row can be written down. The
parent reports a child that dies, with the input that killed it, and its growth of memory.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from australis.diagram.model import Source
from australis.kernel.errors import AustralisError, UserError
from australis.runtime.json_values import json_objects
from australis.runtime.sources import lines, open_reader
from australis.runtime.sources.inbox import Delivery, Inbox
from australis.runtime.sources.push import PushHandle
from australis.runtime.sources.replay import stamped
from australis.streams.buckets import Buckets
from australis.streams.schema import parse_schema

WARM_ROUNDS = 300
"""After these the process has loaded and allocated what it needs."""
MAX_GROWTH_MB = 150

COLUMNS = {
    "t": "timestamp", "b": "boolean", "y": "tinyint", "l": "bigint", "f": "float", "d": "double",
    "s": "string", "x": "binary", "c": "decimal(10,2)", "day": "date",
}  # fmt: skip
FLAT = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
NESTED = f"{FLAT}, p struct<q: int, at: timestamp, r: struct<z: string>>"

GOOD = {
    "t": '"2026-01-01T00:00:01Z"', "b": "true", "y": "1", "l": "-2", "f": "1.5", "d": "2.5",
    "s": '"text"', "x": '"aGk="', "c": "1.25", "day": '"2026-01-01"',
    "p": '{"q": 1, "at": null, "r": {"z": "z"}}',
}  # fmt: skip
"""A good value of each column, as JSON writes it."""
TOKENS = [
    *("", " ", "null", "true", "NaN", "-inf", "[]", "{}", "[", "{", "}", '"', "'", ",", ",,", ":", "\\", "\\ud800"),
    *("0", "-0", "1", "-1", "1.5", "1e400", "1e-400", "1e99999999999999999999", "9" * 30, "9" * 400, "0x10", "128"),
    *("2026-01-01", "2026-01-01T00:00:01Z", "0000-01-01", "0001-01-01", "9999-12-31T23:59:59.999999Z", "1500-02-30"),
    *("99999-01-01", "-0001-01-01", "2026-01-01T00:00:01+99:99", "2026-01-01T24:00:00", "12:00", "1969-12-31"),
    *("aGk=", "ü", "\x00", "\r", "\r\n", "\n", "\n\n", "\ufeff", "\u2028", "\udcff", "٣", "=1+1", "a" * 300, "[" * 2000),
]  # fmt: skip
RAW = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\r",
    b"\r\r\n",
    b"\x00",
    b'"',
    b"\n",
]


def main() -> None:
    """Run the parent, or with `--child` the rounds themselves."""
    parser = argparse.ArgumentParser(description="Feed hostile bytes to a kind of source.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--rounds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path)
    given = parser.parse_args()
    if given.child is not None:
        fuzz(given.kind, given.child, given.seconds, given.rounds, given.seed)
    else:
        print(run(given.kind, seconds=given.seconds, rounds=given.rounds, seed=given.seed))


def run(kind: str, *, seconds: float = math.inf, rounds: float = math.inf, seed: int = 0) -> str:
    """Fuzz in a child process; what it said, or an `AssertionError` with what it died of."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, kind, "--child", folder, "--seed", str(seed)]
        command += ["--seconds", str(seconds), "--rounds", str(rounds)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            at = Path(folder) / "input"
            data = at.read_bytes() if at.exists() else b""
            raise AssertionError(
                f"{kind} ended with {ended.returncode}: {ended.stderr[-2000:]}\n{data[:1000]!r}"
            )
        return ended.stdout


def fuzz(kind: str, folder: Path, seconds: float, rounds: float, seed: int) -> None:
    """Run rounds until one of the limits, and print what became of the rows."""
    lines.file_blocks.__defaults__ = (4096,)
    until, done, warm_kb = time.monotonic() + seconds, 0, 0
    total = {"rows": 0, "rejected": 0, "refused": 0}
    while done < rounds and time.monotonic() < until:
        for what, number in KINDS[kind](random.Random(f"{seed}/{done}"), folder).items():
            total[what] += number
        done += 1
        if done == WARM_ROUNDS:
            warm_kb = _peak_kb()
    grown_mb = (_peak_kb() - warm_kb) / 1024 if warm_kb else 0.0
    assert grown_mb < MAX_GROWTH_MB, f"the memory grew by {grown_mb:.0f} MB"
    print(f"{kind}: {done} rounds, {total}, {grown_mb:.0f} MB more at the end")


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --- text ----------------------------------------------------------------------


def _jsonl(r: random.Random, folder: Path) -> dict[str, int]:
    nested = r.random() < 0.5
    data = _mutated(r, b"\n".join(_json_line(r, nested) for _ in range(r.randrange(30))))
    given = _source("jsonl", NESTED if nested else FLAT, folder, data)
    data = data.removeprefix(b"\xef\xbb\xbf")
    filled = [line for line in data.split(b"\n") if line.removesuffix(b"\r").strip()]
    return _read(given, folder, len(filled))


def _json_line(r: random.Random, nested: bool) -> bytes:
    keys = r.sample([*COLUMNS, "p", "other"] if nested else list(COLUMNS), r.randrange(6))
    values = (
        f'"{key}": {_json_value(r, 2) if r.random() < 0.2 else GOOD.get(key, "null")}'
        for key in ["t", *keys]
    )
    return ("{" + ", ".join(values) + "}").encode(errors="surrogatepass")


def _json_value(r: random.Random, depth: int) -> str:
    token = r.choice(TOKENS)
    if depth and r.random() < 0.2:
        return (
            "{" + ", ".join(f'"{k}": {_json_value(r, depth - 1)}' for k in ("q", "at", "r")) + "}"
        )
    return token if r.random() < 0.3 else f'"{token}"'


def _csv(r: random.Random, folder: Path) -> dict[str, int]:
    header = ",".join(COLUMNS)
    body = _mutated(r, b"\n".join(_csv_line(r) for _ in range(r.randrange(30))))
    data = f"{header}\n".encode() + body
    if r.random() < 0.05:
        data = _mutated(r, data)
    given = _source("csv", FLAT, folder, data)
    head, _, body = data.partition(b"\n")
    if head != header.encode():
        return _read(given, folder, None)
    filled = [line for line in body.split(b"\n") if line.removesuffix(b"\r")]
    return _read(given, folder, len(filled))


def _csv_line(r: random.Random) -> bytes:
    good = {name: GOOD[name].strip('"') for name in COLUMNS}
    for name in r.sample(list(good), r.choice([0, 0, 1, 1, 2, 5])):
        good[name] = r.choice(TOKENS)
    cells = list(good.values())
    if r.random() < 0.1:
        cells = cells[: r.randrange(len(cells) + 1)]
    return ",".join(cells).encode(errors="surrogatepass")


def _mutated(r: random.Random, data: bytes) -> bytes:
    for _ in range(r.choice([0, 0, 1, 1, 2, 5])):
        at = r.randrange(len(data) + 1)
        end = min(len(data), at + r.choice([0, 0, 1, 3, 40]))
        match r.randrange(4):
            case 0:
                new = r.choice(TOKENS).encode(errors="surrogatepass")
            case 1:
                new = r.choice(RAW)
            case 2:
                new = bytes(r.randrange(256) for _ in range(r.randrange(1, 6)))
            case _:
                new = b"\n" + r.choice(TOKENS).encode(errors="surrogatepass") + b"\n"
        data = data[:at] + new + data[end:]
    return data


# --- columns -------------------------------------------------------------------


def _parquet(r: random.Random, folder: Path) -> dict[str, int]:
    table = _table(r, r.randrange(40))
    path = folder / "input"
    try:
        pq.write_table(table, path, compression=r.choice(["none", "snappy", "zstd"]))
    except pa.ArrowException:  # what no Parquet file can hold
        return {}
    data, intact = path.read_bytes(), r.random() < 0.5
    if not intact:
        changed = bytearray(data)
        for _ in range(r.randrange(1, 4)):
            changed[r.randrange(len(changed))] = r.randrange(256)
        data = bytes(changed)
    given = _source("parquet", NESTED, folder, data)
    return _read(given, folder, table.num_rows if intact else None)


def _push(r: random.Random, folder: Path) -> dict[str, int]:
    table = _table(r, r.randrange(20))
    with pa.OSFile(str(folder / "input"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    source = Source(name="s", kind="push", schema=parse_schema(NESTED), time="t")
    inbox = _Taken()
    try:
        PushHandle(source, Buckets(), inbox).push(table)
    except UserError:
        return {"refused": table.num_rows}
    for delivery in inbox.taken:
        _write_down(delivery.rows)
    return {"rows": table.num_rows}


class _Taken(Inbox):
    """An inbox that accepts everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Delivery] = []

    def deliver(self, delivery: Delivery) -> None:
        self.taken.append(delivery)


def _table(r: random.Random, n: int) -> pa.Table:
    """Columns of the right names, some of another type, with values at the edges of it."""
    names = [*COLUMNS, "p"]
    return pa.table([_array(r, name, n) for name in names], names=names)


def _array(r: random.Random, name: str, n: int) -> pa.Array:
    kind = parse_schema(NESTED).attributes.field(name).type
    if r.random() < 0.05:
        kind = r.choice([
            pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.large_string(), pa.binary(),
            pa.timestamp("s"), pa.timestamp("ns"), pa.date64(), pa.decimal128(38, 0), pa.null(),
            pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string()), pa.time64("us"), pa.bool_(),
        ])  # fmt: skip
    return _values(r, kind, n)


def _values(r: random.Random, kind: pa.DataType, n: int) -> pa.Array:
    nulls = pa.array([r.random() < 0.1 for _ in range(n)], pa.bool_())
    if pa.types.is_null(kind):
        return pa.nulls(n)
    if pa.types.is_struct(kind):
        children = [_values(r, field.type, n) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)
    if pa.types.is_list(kind):
        return pa.array([None if r.random() < 0.1 else [1, 2] for _ in range(n)], kind)
    if pa.types.is_dictionary(kind):
        return pa.array([r.choice(["a", "1", None]) for _ in range(n)]).dictionary_encode()
    if pa.types.is_boolean(kind):
        return pa.array([r.random() < 0.5 for _ in range(n)])
    if pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        tokens = TOKENS if r.random() < 0.3 else ["text", "ü", ""]
        texts = [r.choice(tokens).encode(errors="surrogatepass") for _ in range(n)]
        wide = pa.types.is_large_string(kind)
        made = pa.array(texts, pa.large_binary() if wide else pa.binary())
        return pa.Array.from_buffers(kind, n, made.buffers())
    width = kind.bit_width // 8
    usual = np.array([r.choice([1, 1_800_000_000, 20_000]) for _ in range(n * width // 8 + 1)])
    if width == 16:
        usual[1::2] = 0
    raw = usual.astype(np.int64).tobytes()[: n * width]
    if r.random() < 0.05:
        raw = bytes(r.randrange(256) for _ in range(n * width))
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(raw)])


# --- reading -------------------------------------------------------------------


def _source(kind: str, schema: str, folder: Path, data: bytes) -> Source:
    (folder / "input").write_bytes(data)
    return Source(
        name="s", kind=kind, schema=parse_schema(schema), time="t", options={"path": "input"}
    )


def _read(given: Source, folder: Path, expected: int | None) -> dict[str, int]:
    """The numbers of rows and rejected rows, which must be all that was expected."""
    rows, rejected, places = 0, 0, set()
    try:
        reader = open_reader(given, folder)
        assert reader is not None
        for release in stamped(reader, given, Buckets(), 0):
            rows += release.rows.num_rows
            rejected += len(release.rejected)
            assert all(one.reason and one.raw is not None for one in release.rejected)
            places |= {one.line for one in release.rejected}
            _write_down(release.rows)
    except AustralisError:
        if expected is not None:
            raise
        return {"refused": 1}
    assert len(places) == rejected, "two rejections of one row"
    assert expected is None or rows + rejected == expected, (rows, rejected, expected)
    return {"rows": rows, "rejected": rejected}


def _write_down(rows: pa.RecordBatch) -> None:
    """As sinks, programs and the reference engine will."""
    rows.validate(full=True)
    rows.to_pylist()
    json_objects(rows)


KINDS: dict[str, Callable[[random.Random, Path], dict[str, int]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "push": _push,
}

if __name__ == "__main__":
    main()
