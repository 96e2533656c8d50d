"""Every byte of a log that nobody has open is checked, and what is damaged is listed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams.sim_disk import SimDisk
from streams.stream_data import SIZE
from streams.test_log import bucket_batch, filled, open_log, rotten

from australis.kernel.errors import Damaged
from australis.streams.commits import COMMITS, MARK
from australis.streams.verify import verify


def test_a_whole_log_has_no_damage() -> None:
    disk = SimDisk()
    log = filled(disk)
    assert verify(disk) == []
    log.truncate(5)
    assert verify(disk) == []
    log.restart_at(40)
    log.append([bucket_batch(41, 2)], 42 * SIZE)
    assert verify(disk) == []
    assert verify(SimDisk()) == []


def test_every_byte_is_checked() -> None:
    disk = SimDisk()
    filled(disk, 3)
    for name, content in disk.content().items():
        for at in range(len(content)):
            (found,) = verify(rotten(disk, name, at)) or [None]
            if name == MARK:  # unless its last record is damaged it says nothing new
                assert found is None or found.harmless
                continue
            assert found is not None
            assert found.file == name
            assert found.byte <= at
            assert found.harmless == (name == COMMITS)


def test_it_lists_everything_and_what_it_concerns() -> None:
    disk = SimDisk()
    filled(disk)
    first, second = [name for name in disk.names() if name.endswith(".seg")][:2]
    found = verify(rotten(rotten(disk, first, 100), second, 60))
    assert [(one.file, one.byte) for one in found] == [(first, 0), (second, 0)]
    assert "bucket" in found[0].concerns


def test_what_a_crash_left_is_no_damage() -> None:
    disk = SimDisk()
    filled(disk, 3)
    last = max(name for name in disk.names() if name.endswith(".seg"))
    disk.append(last, b"the beginning of an append")
    disk.append(COMMITS, b"AuF1")
    before = disk.content()
    assert verify(disk) == []
    assert disk.content() == before


@given(st.data())
def test_what_it_finds_the_log_refuses(data: st.DataObject) -> None:
    """And the other way round: a log without damage opens and gives everything."""
    disk = SimDisk()
    wanted = [batch for _, batch in filled(disk, 4).read(-1, 99)]
    name = data.draw(st.sampled_from(disk.names()))
    bad = rotten(disk, name, data.draw(st.integers(0, disk.size(name) - 1)))
    harmful = [one for one in verify(bad) if not one.harmless]
    if harmful:
        with pytest.raises(Damaged):
            list(open_log(bad).read(-1, 99))
    else:
        assert [batch for _, batch in open_log(bad).read(-1, 99)] == wanted
