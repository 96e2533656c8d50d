"""A log over a disk that lies: it gives what was acknowledged, or says that it is damaged."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from streams.sim_disk import SimDisk
from streams.stream_data import SIZE
from streams.test_log import SHAPES, Appends, Shape, State, observed, open_log

from australis.kernel.errors import Damaged
from australis.kernel.ids import unpack_id
from australis.streams.commits import MARK
from australis.streams.verify import verify

Files = dict[str, bytes]


def disk_of(files: Files) -> SimDisk:
    disk = SimDisk()
    for name, content in files.items():
        disk.replace(name, content)
    return disk


def written(shapes: list[Shape], data: st.DataObject) -> tuple[list[Files], State]:
    """The files of a log after each of its appends, and what it holds at the end."""
    disk = SimDisk()
    appends = Appends(open_log(disk))
    versions = []
    for shape in shapes:
        appends.append(shape)
        if data.draw(st.booleans()):
            appends.log.truncate(data.draw(st.integers(-1, appends.next_bucket)))
        versions.append(disk.content())
    appends.append([(0, 1)])
    state = observed(appends.log, appends.log.truncated_to)
    return [*versions, disk.content()], state


def flipped(files: Files, versions: list[Files], data: st.DataObject) -> None:
    """A few bits are others."""
    name = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    files[name] = bytes(content)


def misdirected(files: Files, versions: list[Files], data: st.DataObject) -> None:
    """What was meant for one place is in another."""
    source, name = (data.draw(st.sampled_from(sorted(files))) for _ in range(2))
    begin = data.draw(st.integers(0, len(files[source]) - 1))
    part = files[source][begin : begin + data.draw(st.integers(1, 600))]
    at = data.draw(st.integers(0, len(files[name])))
    files[name] = files[name][:at] + part + files[name][at + len(part) :]


def old(files: Files, versions: list[Files], data: st.DataObject) -> None:
    """A file is as it once was, or not there at all."""
    name = data.draw(st.sampled_from(sorted(files)))
    before = data.draw(st.sampled_from(versions)).get(name)
    if before is None:
        del files[name]
    else:
        files[name] = before


def lost(files: Files, versions: list[Files], data: st.DataObject) -> None:
    """The end of a file was never written, or reads as zeros."""
    name = data.draw(st.sampled_from(sorted(files)))
    size = len(files[name])
    kept = files[name][: data.draw(st.integers(0, size))]
    files[name] = kept + bytes(size - len(kept)) if data.draw(st.booleans()) else kept


@settings(max_examples=200, deadline=None)
@given(
    st.lists(SHAPES, min_size=1, max_size=4),
    st.sampled_from([flipped, misdirected, old, lost]),
    st.data(),
)
def test_one_lie_is_noticed_or_changes_nothing(
    shapes: list[Shape], lie: object, data: st.DataObject
) -> None:
    versions, wanted = written(shapes, data)
    files = dict(versions[-1])
    assert callable(lie)
    lie(files, versions, data)
    found = [one for one in verify(disk_of(files)) if not one.harmless]
    try:
        log = open_log(disk_of(files))
        served = observed(log, log.truncated_to)
    except Damaged:
        assert found, "what the log refuses is listed"
        return
    assert served == wanted
    assert not found, "what is listed is refused"


@settings(max_examples=30, deadline=None)
@given(st.lists(SHAPES, min_size=2, max_size=4), st.data())
def test_an_old_copy_of_everything_is_what_the_log_once_was(
    shapes: list[Shape], data: st.DataObject
) -> None:
    """The log alone cannot tell; those who have read it can."""
    versions, _ = written(shapes, data)
    files = data.draw(st.sampled_from(versions))
    log = open_log(disk_of(files))
    assert log.boundary_us <= versions_end(versions)
    assert not verify(disk_of(files))


def versions_end(versions: list[Files]) -> int:
    return open_log(disk_of(versions[-1])).boundary_us


@settings(max_examples=60, deadline=None)
@given(st.lists(SHAPES, min_size=1, max_size=4), st.data())
def test_a_log_that_has_lost_its_mark_serves_no_hole(
    shapes: list[Shape], data: st.DataObject
) -> None:
    """Two lies at once: then it may end too early, but it holds everything up to there."""
    versions, wanted = written(shapes, data)
    files = dict(versions[-1])
    files.pop(MARK)
    data.draw(st.sampled_from([flipped, misdirected, old, lost]))(files, versions, data)
    try:
        log = open_log(disk_of(files))
        served = observed(log, log.truncated_to)
    except Damaged:
        return
    bucket = served.boundary_us // SIZE
    first = log.truncated_to
    there = [row for row in wanted.rows if first < unpack_id(row[0])[0] < bucket]
    kept = wanted.rows[0][0] if wanted.rows else 0
    assert [row for row in served.rows if row[0] >= kept] == there
