"""Golden traces: short failures told as stories, to be read from top to bottom.

`AUSTRALIS_REWRITE_TRACES=1 pytest tests/protocols/dpc/test_traces.py` writes them anew;
then read the difference.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from protocols.dpc.story import Play, chain, crash, isolate, scenario

from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.run import Scenario

FOLDER = Path(__file__).parent / "traces"
REWRITE = os.environ.get("AUSTRALIS_REWRITE_TRACES") == "1"
SETTING = """\
Sources s1, s2 and s3 are merged by two replicas, merge/1 and merge/2, for one client.
Buckets last 1 s: bucket 7 holds what entered from 7 s to 8 s, and is logged at 8 s.
A result may come X = 4 s late; silence is noticed after 1 s. Times are in seconds."""
SLOW = {"batch_buckets": 1, "fields": {"costs": Costs(batch_us=100_000)}}
"""Corrections take a tenth of a second each, so that there is time for something to happen."""

STORIES: dict[str, tuple[str, Scenario]] = {
    "masked by a replica": (
        "The client's replica is cut off. The client notices, goes on with the other one where"
        " it stood, and its application sees nothing of it.",
        scenario(isolate("merge/1", 8.3, 6), safety_s=20),
    ),
    "shorter than X": (
        "A source is away for less than X. Both replicas wait; nothing is tentative, and"
        " everything is stable a little later than usual.",
        scenario(isolate("s1", 8.3, 2.5), safety_s=20),
    ),
    "longer than X": (
        "A source is away for longer than X. After X the replicas go on without it, and what"
        " they say is tentative. When it is back the client is told UNDO, the corrections, and"
        " REC_DONE.",
        scenario(isolate("s1", 8.3, 8), safety_s=20),
    ),
    "crash and recovery": (
        "A replica crashes and starts again from its disk while a source is away. It does not"
        " count as available until it has caught up.",
        scenario(isolate("s1", 8.3, 8), crash("merge/1", 10.3, 3), safety_s=20),
    ),
    "failure during stabilisation": (
        "A second source goes while the replicas still correct what they said without the"
        " first. Before the new tentative results the client is told REC_DONE; afterwards only"
        " those of the second failure are corrected.",
        scenario(isolate("s1", 6.3, 9), isolate("s3", 15.35, 7), safety_s=28, **SLOW),
    ),
    "one after the other": (
        "The same failure, but the replicas take turns to stabilise (thesis 4.7.3): one stays"
        " available and goes on with tentative results while the other one corrects.",
        scenario(isolate("s1", 6.3, 9), safety_s=20, staggered=True, **SLOW),
    ),
    "down a chain": (
        "A second fragment, step2, reads from merge. What was tentative upstream is tentative"
        " downstream, within the same X, and corrections pass through.",
        scenario(isolate("s1", 8.3, 8), safety_s=20, diagram=chain(2)),
    ),
}


def told(name: str) -> str:
    about, one = STORIES[name]
    head = "\n".join(textwrap.wrap(about, 88))
    lines = [f"# {line}" for line in f"{head}\n\n{SETTING}".splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n\n" + Play(one).end().story()


@pytest.mark.parametrize("name", STORIES)
def test_trace(name: str) -> None:
    path = FOLDER / f"{name.replace(' ', '_')}.txt"
    story = told(name)
    if REWRITE:
        path.write_text(story)
    assert story == path.read_text()
    assert len(story.splitlines()) < 60, "too long to be read"


def test_no_trace_is_left_over() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == {n.replace(" ", "_") for n in STORIES}
