"""Which files of a Structured Streaming checkpoint a query reads back, and which may be rewritten.

A checkpoint holds the logs `offsets` and `commits` with a file for each micro-batch, `metadata`, and
below `state` a directory for each state store: `N.changelog` with what the batch before version N
has changed, and now and then `N.zip`, a snapshot, which names immutable files in `SSTs` and `logs`.
A batch that is repeated writes its state anew; all other files are written once.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

METADATA = "metadata"
LOGS = ("offsets", "commits")
_VERSIONED = re.compile(r"\.?(\d+)(?:_[\w-]+)?\.(changelog|zip)(?:\.crc)?")
_REFERENCED = re.compile(rb'"dfs(?:Sst|Log)FileName":"([^"/]+)"')
_SHARED = ("SSTs", "logs")
"""The directories of the files that snapshots name."""


@dataclass(frozen=True)
class Version:
    """A file of a version of a state store."""

    store: str
    number: int
    is_snapshot: bool


def version_of(name: str) -> Version | None:
    """The version of a state store that a file belongs to, by its path in the checkpoint.

    >>> version_of("state/0/1/12.zip")
    Version(store='state/0/1', number=12, is_snapshot=True)
    """
    path = PurePosixPath(name)
    found = _VERSIONED.fullmatch(path.name)
    if found is None or path.parts[0] != "state":
        return None
    return Version(str(path.parent), int(found[1]), found[2] == "zip")


def batch_of(name: str) -> tuple[str, int] | None:
    """The log and the micro-batch that a file belongs to, by its path in the checkpoint."""
    path = PurePosixPath(name)
    number = path.name.removeprefix(".").removesuffix(".crc")
    if len(path.parts) != 2 or path.parts[0] not in LOGS or not number.isdigit():
        return None
    return path.parts[0], int(number)


def stored_files(checkpoint: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The files that are complete, by their paths in the checkpoint.

    Those that a snapshot names are left out: they are complete once the snapshot is there.
    """
    for name in (METADATA, *LOGS, "state"):
        yield from _below(checkpoint, "", only=(name, f".{name}.crc"))


def _below(
    checkpoint: Path, directory: str, only: tuple[str, ...] = ()
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    try:
        with os.scandir(checkpoint / directory) as found:
            entries = [entry for entry in found if not only or entry.name in only]
    except FileNotFoundError:
        return
    for entry in entries:
        name = f"{directory}/{entry.name}" if directory else entry.name
        if entry.is_dir():
            if entry.name not in _SHARED:
                yield from _below(checkpoint, name)
        elif ".tmp" not in entry.name and (entry.name[0] != "." or entry.name.endswith(".crc")):
            yield name, entry


def named_by(checkpoint: Path, snapshot: str) -> list[str]:
    """The files that a snapshot of a state store names, in either of their directories."""
    try:
        with zipfile.ZipFile(checkpoint / snapshot) as archive:
            data = b"".join(archive.read(n) for n in archive.namelist() if n == "metadata")
    except Exception:  # a damaged archive raises anything
        return []
    store = PurePosixPath(snapshot).parent
    names = [found.decode() for found in _REFERENCED.findall(data)]
    return [str(store / shared / name) for name in names for shared in _SHARED]


def read_back(listed: Set[str], here: Set[str], committed: int | None) -> set[str]:
    """Of the listed files those that a query reads when it goes on after a micro-batch.

    Older ones may be gone, and later ones are written again.
    """
    last = -1 if committed is None else committed
    needed = {name for name in listed if name in (METADATA, f".{METADATA}.crc")}
    for log in LOGS:
        numbers = [at[1] for name in listed if (at := batch_of(name)) and at[0] == log]
        needed |= {f"{log}/{n}" for n in (last - 1, last, *([max(numbers)] if numbers else []))}
    snapshots: dict[str, int] = defaultdict(int)
    for name in listed | here:
        version = version_of(name)
        if version is not None and version.is_snapshot and version.number <= last + 1:
            snapshots[version.store] = max(snapshots[version.store], version.number)
    for name in listed:
        version = version_of(name)
        if version is None or version.number > last + 1:
            continue
        newest = snapshots[version.store]
        if version.number == newest if version.is_snapshot else version.number > newest:
            needed.add(name)
    return needed & listed
