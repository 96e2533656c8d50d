"""Small files with a checksum: what is read back is what was written, or `Damaged`.

A sealed file begins with a line that says what the file is, so that one in the
place of another is recognised too. Its checksum covers that line and the rest.

    >>> seal("epoch", b"2027-01-15T08:00:00+00:00\\n").splitlines()
    [b'australis 1 59967e22 epoch', b'2027-01-15T08:00:00+00:00']
"""

from __future__ import annotations

import zlib
from pathlib import Path

from australis.kernel.errors import Damaged, UserError
from australis.runtime.files import TEMPORARY, make_directory, read_private, replace_file, stopping

_VERSION = 1


def seal(what: str, payload: bytes) -> bytes:
    """The content of a file that holds this payload."""
    assert what.isprintable(), "it stands on a line of its own"
    check = zlib.crc32(payload, zlib.crc32(what.encode()))
    return f"australis {_VERSION} {check:08x} {what}\n".encode() + payload


def unseal(what: str, data: bytes) -> bytes | None:
    """The payload of such a content; None if that is not what `seal` made of it."""
    payload = data.partition(b"\n")[2]
    return payload if data == seal(what, payload) else None


def read_sealed(path: Path, what: str, remedy: str, *, private: bool = True) -> bytes | None:
    """The payload of a sealed file; None if there is no file, `Damaged` if it is another."""
    with stopping("read", path):
        try:
            data = read_private(path) if private else path.read_bytes()
        except FileNotFoundError:
            return None
    payload = unseal(what, data)
    if payload is None:
        raise Damaged(f"{path} is damaged, it is not the '{what}' that was written: {remedy}")
    return payload


def write_sealed(path: Path, what: str, payload: bytes, *, private: bool = True) -> None:
    """Write a sealed file, durably and atomically."""
    with stopping("write", path):
        replace_file(path, seal(what, payload), private=private)


# --- whose directory it is -----------------------------------------------------------------

OWNER = "owner"
"""The file of a directory that says whose it is, and which files must be in it."""


def own(directory: Path, owner: str, first: dict[str, bytes] | None = None) -> None:
    """Refuse a directory of another owner; one that is new becomes this one's.

    The files in `first` are written where the directory never had them; afterwards one that is
    missing is damage.
    """
    path, files = directory / OWNER, first or {}
    remedy = "fsck says what can be done (`australis fsck`)"
    found = read_sealed(path, OWNER, remedy)
    if found is None:
        with stopping("open", directory):
            make_directory(directory)
            if any(not one.name.endswith(TEMPORARY) for one in directory.iterdir()):
                raise Damaged(f"{path}, which says whose directory that is, is missing: {remedy}")
        write_sealed(path, OWNER, owner.encode())
        found = owner.encode()
    said, *names = found.decode().split("\n")
    if said != owner:
        raise UserError(
            f"holds the state of {said}, not of {owner}: put each directory back in its place",
            name=str(directory),
        )
    for name in (name for name in names if not (directory / name).exists()):
        raise Damaged(f"{directory / name} is missing: {remedy}")
    new = [name for name in files if name not in names]
    for name in new:
        if not (directory / name).exists():
            with stopping("write", directory / name):
                replace_file(directory / name, files[name])
    if new:
        write_sealed(path, OWNER, "\n".join([owner, *names, *new]).encode())


def owner_of(directory: Path) -> str | None:
    """Whose directory this is; None if it does not say so."""
    found = read_sealed(directory / OWNER, OWNER, "fsck says what can be done")
    return None if found is None else found.decode().split("\n")[0]
