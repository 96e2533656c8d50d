"""Real files under the log, and the lock that keeps a second run out.

`FileDisk` answers `streams.disk.Disk` with one directory. A file that was
created is not there after a power cut until its directory was synced too, so
the directory is synced whenever a name appears, changes or goes. What the
operating system refuses (a full disk, a directory that vanished) becomes a
`Stopped` with one sentence: the caller cannot continue without losing data.

Files of a state directory are *private*: only their owner can read them, and they
are never opened through a symbolic link, which could lead anywhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from australis.kernel.errors import Damaged, Place, Stopped, UserError

OPEN_FILES = 32
"""The largest number of file descriptors that one disk keeps open."""

TEMPORARY = ".australis-tmp"
"""The suffix of the file that an interrupted `replace` leaves behind until the next one."""


_under_way: dict[object, str] = {}
"""What is being done with files now, oldest first."""


def open_private(path: Path, flags: int) -> int:
    """Open a file of a state directory; a symbolic link is refused with a `UserError`."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise linked(path) from None
        raise


def read_private(path: Path) -> bytes:
    """The content of a file of a state directory."""
    with open(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_private(path: Path, data: bytes) -> None:
    """Write a file of a state directory that need not outlive a crash."""
    with open(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(data)


def linked(path: Path) -> UserError:
    """The error of a symbolic link in a state directory."""
    return UserError(
        "is a symbolic link, and no file of a state directory may be one: put the file itself"
        " there, or remove the link",
        name=str(path),
    )


def refuse_links(root: Path) -> None:
    """Raise a `UserError` if there is a symbolic link below a directory."""
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(directory) / name
            if path.is_symlink():
                raise linked(path)


@contextmanager
def stopping(action: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a `Stopped` that names the file."""
    key = object()
    _under_way[key] = f"{action} {path}"
    try:
        yield
    except OSError as error:
        raise Stopped(f"cannot {action} {path}: {error.strerror or error}") from error
    finally:
        del _under_way[key]


def under_way() -> dict[object, str]:
    """What is being done with files now, each under a key of its own."""
    return _under_way.copy()


@contextmanager
def damage_in(directory: Path) -> Iterator[None]:
    """Name the directory in what is said of damaged files, and what to do."""
    try:
        yield
    except Damaged as error:
        raise Damaged(
            f"{error}, in {directory}: `australis fsck` says what can be repaired",
            file=error.file,
            byte=error.byte,
        ) from None


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


MAX_TEXT_BYTES = 16_000_000
"""The largest size of a file that a user writes."""


def read_text(path: Path | str) -> str:
    """The text of a user's file; raises a `UserError` of one sentence if it cannot be read."""
    path = Path(path)
    place = Place(str(path))
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise UserError(f"the file is larger than {MAX_TEXT_BYTES:,} bytes", place=place)
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError("there is no such file", place=place) from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", place=place) from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = Place(str(path), data.count(b"\n", 0, error.start) + 1)
        said = f"cannot be read: it is not UTF-8 text (byte 0x{data[error.start]:02x})"
        raise UserError(said, place=place) from None


def make_directory(directory: Path, *, private: bool = True) -> None:
    """Create a directory and its parents, durably."""
    missing = [p for p in (directory, *directory.parents) if not p.exists()]
    for path in reversed(missing):
        path.mkdir(0o700 if private else 0o777, exist_ok=True)
        sync_directory(path.parent)


def replace_file(path: Path, data: bytes, *, private: bool = True) -> None:
    """Replace the content of a file, durably and atomically."""
    temporary = path.with_name(path.name + TEMPORARY)
    _write_whole(temporary, data, private)
    os.replace(temporary, path)
    sync_directory(path.parent)


def write_first(path: Path, data: bytes) -> None:
    """Write a file durably and atomically, unless another process or thread has created it."""
    temporary = path.with_name(f"{path.name}.{threading.get_native_id()}{TEMPORARY}")
    _write_whole(temporary, data, private=True)
    with suppress(FileExistsError):
        os.link(temporary, path)
    temporary.unlink()
    sync_directory(path.parent)


def _write_whole(path: Path, data: bytes, private: bool) -> None:
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, private)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)


def _open(path: Path, flags: int, private: bool) -> int:
    return open_private(path, flags) if private else os.open(path, flags | os.O_CLOEXEC, 0o666)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte: one call of `os.write` may take fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class FileDisk:
    """One directory of append-only files (see `streams.disk.Disk`).

    One thread writes; any thread may read. The lock guards the table of open
    descriptors and is never held while the device syncs data.
    """

    def __init__(self, directory: Path, *, private: bool = True) -> None:
        self.directory = directory
        self._private = private
        self._lock = threading.Lock()
        self._open_fds: OrderedDict[str, int] = OrderedDict()
        with stopping("open", directory):
            make_directory(directory, private=private)

    def names(self) -> list[str]:
        with stopping("list", self.directory):
            found = [entry.name for entry in os.scandir(self.directory) if entry.is_file()]
        return sorted(name for name in found if not name.endswith(TEMPORARY))

    def size(self, name: str) -> int:
        path = self.directory / name
        with stopping("read", path):
            try:
                return path.stat().st_size
            except FileNotFoundError:
                return 0

    def read(self, name: str, offset: int, length: int) -> bytes:
        with stopping("read", self.directory / name), self._lock:
            fd = self._fd(name)
            # A torn frame may request gigabytes, which pread would allocate first.
            length = max(0, min(length, os.fstat(fd).st_size - offset))
            parts: list[bytes] = []
            while length and (part := os.pread(fd, length, offset)):
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def append(self, name: str, data: bytes) -> None:
        with stopping("write", self.directory / name), self._lock:
            write_all(self._fd(name, create=True), data)

    def sync(self, name: str) -> None:
        with stopping("write", self.directory / name):
            with self._lock:
                fd = os.dup(self._fd(name))
            try:
                # A deleted file still accepts writes, and loses them when it is closed.
                if os.fstat(fd).st_nlink == 0:
                    raise FileNotFoundError(errno.ENOENT, "the file was removed meanwhile")
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def cut(self, name: str, size: int) -> None:
        with stopping("shorten", self.directory / name), self._lock:
            fd = self._fd(name)
            os.ftruncate(fd, size)
            os.fsync(fd)

    def replace(self, name: str, data: bytes) -> None:
        path = self.directory / name
        with stopping("write", path), self._lock:
            self._forget(name)
            replace_file(path, data, private=self._private)

    def remove(self, name: str) -> None:
        path = self.directory / name
        with stopping("remove", path), self._lock:
            self._forget(name)
            path.unlink()
            sync_directory(self.directory)

    def close(self) -> None:
        """Close every file; a later call opens it again."""
        with self._lock:
            for name in list(self._open_fds):
                self._forget(name)

    def _fd(self, name: str, create: bool = False) -> int:
        fd = self._open_fds.get(name)
        if fd is None:
            path = self.directory / name
            is_new = create and not path.exists()
            flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
            fd = _open(path, flags, self._private)
            if is_new:
                sync_directory(self.directory)
            self._open_fds[name] = fd
            if len(self._open_fds) > OPEN_FILES:
                self._forget(next(iter(self._open_fds)))
        self._open_fds.move_to_end(name)
        return fd

    def _forget(self, name: str) -> None:
        fd = self._open_fds.pop(name, None)
        if fd is not None:
            os.close(fd)


def lock_file(path: Path) -> int | None:
    """Lock a file, which the operating system frees after a crash; None if it is locked already."""
    with stopping("open", path):
        make_directory(path.parent)
        fd = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def name_holder(fd: int, path: Path, holder: str) -> None:
    """Write into a locked file who holds it."""
    with stopping("write", path):
        os.ftruncate(fd, 0)
        write_all(fd, holder.encode())


def unlock_file(fd: int) -> None:
    """Unlock a file, and empty it."""
    with suppress(OSError):
        os.ftruncate(fd, 0)
    os.close(fd)


class DirectoryLock:
    """The lock of a state directory for one run; the operating system frees it after a crash.

    `path` is the lock file; the lock covers the directory of that file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Lock the directory; raises a `UserError` if another run holds it."""
        fd = lock_file(self.path)
        if fd is None:
            holder = self.path.read_text(errors="replace").strip() or "unknown"
            raise UserError(f"is in use by another run (pid {holder})", name=str(self.path.parent))
        self._fd = fd
        with stopping("open", self.path.parent):
            self.path.parent.chmod(0o700)
        name_holder(fd, self.path, str(os.getpid()))

    def release(self) -> None:
        """Unlock the directory."""
        if self._fd is not None:
            unlock_file(self._fd)
            self._fd = None

    def __enter__(self) -> DirectoryLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
