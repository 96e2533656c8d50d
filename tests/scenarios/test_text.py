"""Scenario files: what they say, and what can be wrong in them, with file, line and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.scenarios.model import CLIENT, Fault, FaultKind, Scenario
from australis.scenarios.scenario_file import load, read

FILE = "my.yaml"
HEAD = """\
scenario: small
says: Something fails.
diagram:
  diagram: d
  bucket: 250 ms
  sources:
    s1: {generate: connections, rate: 40}
    s2: {generate: connections, rate: 40}
  operators:
    all: {union: [s1, s2]}
replicas: {all: [a, b]}
sources: {s1: e1, s2: e2}
lasts: 10 s
expect: {stable: equal}
"""
"""What follows begins in line 15."""


def tells(text: str, line: int | None, *words: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text, FILE)
    said = str(caught.value)
    place = FILE if line is None else f"{FILE}:{line}"
    assert said.startswith(f"{place}: "), said
    assert "\n" not in said
    for word in words:
        assert word in said, said


def with_faults(*faults: str) -> Scenario:
    return read(HEAD + "faults:\n" + "".join(f"  - {{{fault}}}\n" for fault in faults), FILE)


# --- what a file says --------------------------------------------------------


def test_a_scenario() -> None:
    one = read(HEAD + "max_delay: 2 s\nheartbeat: 50 ms\n", FILE)
    assert (one.name, one.says, one.lasts_us) == ("small", "Something fails.", 10 * SECOND)
    assert list(one.cluster.nodes) == ["a", "b", "e1", "e2"]
    assert one.cluster.replicas == {"all": ("a", "b")}
    assert (one.cluster.max_delay_us, one.cluster.heartbeat_us) == (2 * SECOND, 50 * MILLISECOND)
    assert one.streams == ("all",)
    assert (one.expected.words, one.expected.within_us) == ({"stable": "equal"}, None)
    assert (one.faults, one.healed_us) == ((), 0)


def test_what_runs_on_each_node() -> None:
    assert read(HEAD, FILE).machines == {
        "a": ("all@a",),
        "b": ("all@b",),
        "e1": ("s1",),
        "e2": ("s2",),
        CLIENT: (CLIENT,),
    }


def test_faults_come_in_the_order_of_their_beginnings() -> None:
    found = with_faults(
        "pause: e1, at: 3 s, for: 1 s",
        "kill: [a, b], at: 1 s, for: 500 ms",
        "cut: a, from: client, at: 5 s, for: 1 s, one_way: true",
        "slow: a, from: e1, by: 300 ms, at: 6 s, for: 1 s",
        "lose_disk: b, at: 8 s, for: 1 s",
    )
    assert found.faults == (
        Fault(FaultKind.KILL, ("a", "b"), SECOND, 500 * MILLISECOND),
        Fault(FaultKind.PAUSE, ("e1",), 3 * SECOND, SECOND),
        Fault(FaultKind.CUT, ("a",), 5 * SECOND, SECOND, CLIENT, one_way=True),
        Fault(FaultKind.SLOW, ("a",), 6 * SECOND, SECOND, "e1", by_us=300 * MILLISECOND),
        Fault(FaultKind.LOSE_DISK, ("b",), 8 * SECOND, SECOND),
    )
    assert found.healed_us == 9 * SECOND
    assert [str(fault) for fault in found.faults] == [
        "kill a and b for 500 ms",
        "pause e1 for 1 s",
        "cut a off from client, one way for 1 s",
        "slow a from e1 by 300 ms for 1 s",
        "lose the disk of b for 1 s",
    ]


def test_a_flapping_link_is_cut_again_and_again() -> None:
    found = with_faults("cut: a, from: e1, at: 1 s, for: 500 ms, times: 3, every: 2 s")
    assert [fault.at_us for fault in found.faults] == [SECOND, 3 * SECOND, 5 * SECOND]


def test_cuts_may_overlap_at_different_links() -> None:
    cuts = ("cut: a, from: e1, at: 1 s, for: 3 s", "cut: a, from: e2, at: 2 s, for: 3 s")
    assert len(with_faults(*cuts, "kill: b, at: 2 s, for: 1 s").faults) == 3


def test_a_diagram_beside_the_file(tmp_path: Path) -> None:
    begin, end = HEAD.index("  diagram: d\n"), HEAD.index("replicas:")
    inline = HEAD[begin:end]
    (tmp_path / "d.yaml").write_text("\n".join(line[2:] for line in inline.splitlines()))
    path = tmp_path / "s.yaml"
    path.write_text(HEAD.replace(f"\n{inline}", " d.yaml\n"))
    assert load(path).diagram == read(HEAD, FILE).diagram


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.yaml: there is no such file"):
        load(tmp_path / "no.yaml")


# --- mistakes ----------------------------------------------------------------

WHOLE_FILES = {
    "empty": ("", None, ["the file is empty"]),
    "unknown section": (HEAD + "client: x\n", 15, ["'client' is not a section of a scenario"]),
    "no sentence": (HEAD.replace("says: Something fails.\n", ""), None, ["no section 'says'"]),
    "bad name": (HEAD.replace(": small", ": a b"), 1, ["'a b' is not a name"]),
    "no duration": (HEAD.replace("10 s", "long"), 13, ["'lasts' is not a duration: 'long'"]),
    "no time at all": (HEAD.replace("10 s", "0 s"), 13, ["'lasts' should be longer than nothing"]),
    "inside the diagram": (HEAD.replace("[s1, s2]", "[s1, s3]"), 10, ["'all'", "'s3'"]),
    "wrong fragment": (HEAD.replace("{all: [a", "{al: [a"), 11, ["'al' is not a fragment", "'all'"]),
    "source nowhere": (HEAD.replace(", s2: e2", ""), 12, ["'s2' is a source", "on no node"]),
    "no nodes": (HEAD.replace("[a, b]", "[]"), 11, ["'all' should be a node or a list of nodes"]),
    "reads nothing": (HEAD + "reads: al\n", 15, ["'client' reads 'al'", "did you mean 'all'?"]),
    "too little time": (HEAD + "max_delay: 500 ms\n", 15, ["'a delay of 500 ms' is too short"]),
    "not generated": (
        HEAD.replace("s1: {generate: connections, rate: 40}", 's1: {push: true, schema: "a int"}'),
        7,
        ["'s1'", "'push'", "are generated"],
    ),
    "its own start": (
        HEAD.replace("rate: 40}", "rate: 40, start: 2026-01-01}", 1), 7, ["'s1'", "'start'"]
    ),
    "bad option": (HEAD.replace("rate: 40", "rte: 40", 1), 7, ["'s1'", "unknown option 'rte'"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WHOLE_FILES.values(), ids=WHOLE_FILES)
def test_mistakes_of_the_file(text: str, line: int | None, words: list[str]) -> None:
    tells(text, line, *words)


def test_several_results_need_a_choice() -> None:
    more = HEAD.replace("  operators:\n", "  operators:\n    one: {filter: s1, where: port > 1}\n")
    more = more.replace("replicas: {", "replicas: {one: [a, b], ")
    tells(more, 3, "'d' has several results (one, all)", "'reads'")


FAULTS = {
    "no kind": ("at: 1 s, for: 1 s", ["'fault 1' does not say what happens", "kill, pause"]),
    "two kinds": ("kill: a, pause: b, at: 1 s, for: 1 s", ["more than once (kill, pause)"]),
    "no time": ("kill: a, for: 1 s", ["'fault 1' needs 'at'"]),
    "no end": ("kill: a, at: 1 s", ["'fault 1' needs 'for'"]),
    "no duration": ("kill: a, at: soon, for: 1 s", ["'at' that is not a duration: 'soon'"]),
    "lasts no time": ("kill: a, at: 1 s, for: 0 s", ["'for' that should be longer"]),
    "unknown setting": ("kill: a, at: 1 s, for: 1 s, from: b", ["unknown setting 'from'"]),
    "cut from nothing": ("cut: a, at: 1 s, for: 1 s", ["'fault 1' needs 'from'"]),
    "cut by": ("cut: a, from: b, by: 1 s, at: 1 s, for: 1 s", ["unknown setting 'by'"]),
    "slow by nothing": ("slow: a, from: b, at: 1 s, for: 1 s", ["'fault 1' needs 'by'"]),
    "slow client": ("slow: a, from: client, by: 1 s, at: 1 s, for: 1 s", ["names 'client'"]),
    "one way no flag": ("cut: a, from: b, at: 1 s, for: 1 s, one_way: 1", ["true or false"]),
    "no nodes": ("kill: [], at: 1 s, for: 1 s", ["'kill' that should be a node or a list"]),
    "unknown node": ("kill: e3, at: 1 s, for: 1 s", ["an unknown node 'e3'", "a, b, e1, e2"]),
    "unknown other": ("cut: a, from: x, at: 1 s, for: 1 s", ["unknown node 'x'", "client"]),
    "itself": ("cut: a, from: a, at: 1 s, for: 1 s", ["names 'a' twice"]),
    "after the end": ("kill: a, at: 9 s, for: 2 s", ["is over after 11 s", "'lasts: 10 s'"]),
    "a source's node": (
        "lose_disk: e1, at: 1 s, for: 1 s",
        ["hits 'e1'", "no other node has its log"],
    ),
    "no times": ("kill: a, at: 1 s, for: 1 s, times: 0, every: 2 s", ["'times'", "at least 1"]),
    "how often": ("kill: a, at: 1 s, for: 1 s, times: 2", ["'fault 1' needs 'every'"]),
    "no pause": ("kill: a, at: 1 s, for: 2 s, times: 2, every: 1 s", ["before it is over"]),
}


@pytest.mark.parametrize(("fault", "words"), FAULTS.values(), ids=FAULTS)
def test_mistakes_of_a_fault(fault: str, words: list[str]) -> None:
    tells(f"{HEAD}faults:\n  - {{{fault}}}\n", 16, *words)


def test_a_state_that_may_rest_on_everything_is_not_lost() -> None:
    lost = "faults:\n  - {lose_disk: [a, b], at: 1 s, for: 1 s}\n"
    assert read(HEAD + lost, FILE).faults
    counted = "{aggregate: s1, window: 5 tuples, compute: {n: count(*)}}"
    text = HEAD.replace("{union: [s1, s2]}", counted)
    tells(text + lost, 16, "leaves no replica of 'all'", "may rest on everything")


def test_a_clock_is_ahead_or_behind() -> None:
    found = read(f"{HEAD}clocks: {{a: {{ahead: 2 s}}, b: {{behind: 500 ms}}}}\n", FILE)
    assert found.clocks == {"a": 2_000_000, "b": -500_000}
    tells(f"{HEAD}clocks: {{a: {{}}}}\n", 15, "needs 'ahead' or 'behind'")
    tells(f"{HEAD}clocks: {{e1: {{ahead: 2 s}}}}\n", 15, "'e1' is not a node whose clock")


def test_faults_are_a_list() -> None:
    tells(HEAD + "faults: {kill: a}\n", 15, "'faults' should be a list")


TOGETHER = {
    "down twice": ("kill: a, at: 1 s, for: 2 s", "pause: a, at: 2 s, for: 2 s", "a"),
    "cut while down": ("kill: a, at: 1 s, for: 2 s", "cut: a, from: e1, at: 2 s, for: 2 s", "a"),
    "cut twice": (
        "cut: a, from: b, at: 1 s, for: 2 s", "cut: b, from: a, at: 2 s, for: 2 s", "a and b"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two", "what"), TOGETHER.values(), ids=TOGETHER)
def test_faults_that_get_in_each_others_way(one: str, two: str, what: str) -> None:
    text = f"{HEAD}faults:\n  - {{{one}}}\n  - {{{two}}}\n"
    tells(text, 17, f"touches {what} while the", "of line 16 still does")


EXPECTED = {
    "unknown": ("{stabel: equal}", ["'expect' has an unknown setting 'stabel'"]),
    "wrong word": ("{stable: different}", ["'stable' that should be 'equal'"]),
    "no word": ("{tentative: maybe}", ["'tentative' that should be 'none' or 'some'"]),
    "no limit": ("{silence: none}", ["'silence' that is not a duration"]),
    "no duration": ("{within: soon}", ["'within' that is not a duration"]),
}


@pytest.mark.parametrize(("expect", "words"), EXPECTED.values(), ids=EXPECTED)
def test_mistakes_of_what_is_expected(expect: str, words: list[str]) -> None:
    tells(HEAD.replace("{stable: equal}", expect), 14, *words)
