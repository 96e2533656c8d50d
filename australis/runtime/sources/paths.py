"""The files a source names (one path, several, or a pattern) and what they must hold."""

from __future__ import annotations

import glob
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from australis.diagram.model import Source
from australis.kernel.errors import UserError
from australis.runtime.options import Options
from australis.runtime.sources.base import Chunk

FILE_OPTIONS = ("path", "speed", "unit")


def find_files(source: Source, base: Path) -> list[Path]:
    """The files, in the order they are read; relative paths begin at `base`."""
    options = Options(source, FILE_OPTIONS)
    found: list[Path] = []
    for text in options.texts("path"):
        path = base / Path(text).expanduser()
        if glob.has_magic(text):
            matches = sorted(Path(p) for p in glob.glob(str(path), recursive=True))
            files = [match for match in matches if match.is_file()]
            if not files:
                raise options.wrong(f"matches no file: {text}")
            found += files
        elif path.is_dir():
            raise options.wrong(f"names a directory: {text} (write a pattern such as {text}/*)")
        elif not path.is_file():
            raise options.wrong(f"names a file that does not exist: {path}")
        else:
            found.append(path)
    return found


def require_columns(source: Source, path: Path, names: Collection[str]) -> None:
    """Raise a `UserError` if a file lacks a column that the source declares."""
    missing = [name for name in source.schema.names if name not in names]
    if missing:
        raise UserError(
            f"reads {path.name}, which has no column '{missing[0]}'"
            f" (its columns: {', '.join(names)})",
            name=source.name,
            place=source.place,
        )


def in_file(chunk: Chunk, path: Path) -> Chunk:
    """The chunk, with the file named in its rejected rows."""
    if not chunk.rejected:
        return chunk
    told = (replace(one, reason=f"{path.name}: {one.reason}") for one in chunk.rejected)
    return Chunk(chunk.rows, tuple(told))
