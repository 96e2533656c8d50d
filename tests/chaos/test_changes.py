"""Moves of a running replica between real processes, of which one is killed in each phase."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from chaos.test_processes import written

from australis.kernel.errors import Stopped
from australis.runtime.admin import AdminClient
from australis.runtime.changes import JOINING, LEAVING, Changes
from australis.runtime.testbed import Testbed

pytestmark = [pytest.mark.xdist_group("changes"), pytest.mark.timeout(300)]

SOURCE, TARGET, STAYS = "a", "e1", "b"
"""The replica moves from one to the other; one stays. Keepers are a, b and e1."""
KEPT = {SOURCE, STAYS}, {TARGET, STAYS}
"""Where replicas are if the move is cancelled, and if it is done."""


def members(changes: Changes) -> set[str]:
    return {m.node for m in changes.newest().set_of("counts").members}


def move(bed: Testbed, changes: Changes, at: str = "", who: str = "") -> str:
    """Move a replica; a node is killed at a phase, and started again two seconds later."""
    killed = False
    try:
        for step in changes.carry_out("counts", (TARGET,), (SOURCE,)):
            if step.phase == at and not killed:
                killed = True
                bed.kill(who)
                time.sleep(2)
                bed.start(who)
    except Stopped as error:
        pytest.fail(str(error))
    return step.phase


def go_on(bed: Testbed) -> None:
    """Wait until stable results come again, and nothing is left to correct."""
    upto = bed.stable_upto
    bed.until(lambda: bed.stable_upto > upto + 20, "nothing stable came")
    bed.until(lambda: not bed.uncorrected, "something stayed tentative")


def test_nobody_notices_a_move(tmp_path: Path) -> None:
    with Testbed(written(tmp_path), "counts") as bed:
        changes = Changes(AdminClient(bed.cluster, bed.base), bed.base)
        bed.wait_until_stable()
        bed.wait(2)
        since = time.monotonic()
        assert move(bed, changes) == "done"
        bed.wait(2)
        assert members(changes) == {TARGET, STAYS}
        assert not bed.tentative(since)
        assert bed.silence(since, time.monotonic()) < 2
        verdict = bed.verdict()
        assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)


@pytest.mark.parametrize("at", [JOINING, LEAVING], ids=["joining", "leaving"])
@pytest.mark.parametrize("who", [SOURCE, TARGET, STAYS])
def test_a_move_survives_a_kill(tmp_path: Path, who: str, at: str) -> None:
    with Testbed(written(tmp_path), "counts") as bed:
        changes = Changes(AdminClient(bed.cluster, bed.base), bed.base)
        bed.wait_until_stable()
        outcome = move(bed, changes, at, who)
        assert outcome in ("done", "cancelled")
        assert members(changes) in KEPT
        go_on(bed)
        verdict = bed.verdict()
        assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)
        assert move(bed, changes) == "done" if outcome == "cancelled" else True
