"""Federation files, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import InFlight, Load, Polyline, Step
from australis.protocols.contracts.federation_file import load

EXAMPLE = Path(__file__).parents[3] / "examples" / "federation.yaml"
GOOD = """\
federation: test
participants:
  a: {tasks: 3, task: {cpu: 0.1, memory: 5}, cost: {cpu: {queue: 4}, memory: {limit: 9, penalty: 2}}}
  b: {tasks: 1, cost: {cpu: {points: [[0, 0], [5, 1], [9, 6]]}}}
contracts:
  a with b: {price: [1, 2], duration: 30 s, unit: {cpu: 0.5}, forwarding: refused}
"""
KINDS = """\
federation: test
participants:
  a:
    tasks:
      filter: 2
      join: {count: 1, load: {cpu: 3}, query: alerts, state: 20}
    margin: 0.1
    moving: 0.5
  b: {tasks: 1}
contracts:
  a with b:
    price: 3
    kinds: [join]
    begins: 1 min
    ends: 2 min
    max_delay: 3 s
    penalty: 7
"""


def test_everything_a_file_can_say() -> None:
    members = load(GOOD, "f.yaml")
    a, b = members.participants.values()
    assert a.costs.cpu == InFlight(4.0)
    assert a.costs.memory == Step(9.0, 2.0)
    assert isinstance(b.costs.cpu, Polyline)
    assert [t.load for t in a.tasks] == [Load(cpu=0.1, memory=5.0)] * 3
    (contract,) = members.contracts
    assert (contract.low, contract.high, contract.duration_us) == (1.0, 2.0, 30 * SECOND)
    assert contract.kinds is None
    assert not contract.may_forward
    assert contract.unit == Load(cpu=0.5)


def test_the_example_is_good() -> None:
    assert len(load(EXAMPLE.read_text(), str(EXAMPLE)).contracts) == 6


def test_tasks_of_several_kinds() -> None:
    members = load(KINDS, "f.yaml")
    a = members.participants["a"]
    assert [t.name for t in a.tasks] == ["a/filter/0", "a/filter/1", "a/join/0"]
    assert [t.load.cpu for t in a.tasks] == [1.0, 1.0, 3.0]
    assert (a.tasks[2].kind, a.tasks[2].query, a.tasks[2].state_mb) == ("join", "alerts", 20.0)
    assert (a.value.margin, a.value.moving_per_mb) == (0.1, 0.5)
    (contract,) = members.contracts
    assert [contract.valid(at * SECOND) for at in (59, 60, 119, 120)] == [False, True, True, False]
    assert [contract.allows(t) for t in a.tasks] == [False, False, True]
    assert (contract.max_delay_s, contract.penalty) == (3.0, 7.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[join]", "[joint]", "f.yaml:11: 'a with b' allows a kind of tasks that no participant has: 'joint'"
         " (kinds: filter, join)"),
        ("filter: 2", "filter: two", "f.yaml:5: 'a' has a setting 'tasks.filter' that should be"
         " a number of tasks, or {count: N, load: ..., query: NAME, state: MB}, not 'two'"),
        ("count: 1", "many: 1", "f.yaml:6: 'a' has an unknown setting 'tasks.join.many' (known"),
        ("count: 1", "count: 99999999", "f.yaml:6: 'a' has a setting 'tasks.join.count' that should"
         " be a number of tasks from 0 to 100,000, not 99999999"),
        ("filter: 2", "filter: 100000", "f.yaml:4: 'a' has 100,001 tasks, more than 100,000"),
        ("query: alerts", "query: 7", "f.yaml:6: 'a' has a setting 'tasks.join.query' that should be"),
        ("margin: 0.1", "margin: 1.5", "f.yaml:7: 'a' has a setting 'margin' that should be a part"),
        ("ends: 2 min", "ends: 1 min", "f.yaml:11: 'a with b' ends before it begins"),
        ("max_delay: 3 s", "duration: 1 s", "f.yaml:11: 'a with b' has a penalty but does not say"),
    ],
)  # fmt: skip
def test_a_mistake_about_kinds_is_told_with_its_line(old: str, new: str, said: str) -> None:
    assert old in KINDS
    with pytest.raises(UserError) as error:
        load(KINDS.replace(old, new, 1), "f.yaml")
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[1, 2]", "[3, 2]", "f.yaml:6: 'a with b' has a price between 3 and 2"),
        ("a with b", "a with c", "f.yaml:6: 'c' is no participant (participants: a, b)"),
        ("a with b", "a and b", "f.yaml:6: 'a and b' should be BUYER with SELLER"),
        ("tasks: 1,", "tasks: -1,", "f.yaml:4: 'b' has a setting 'tasks' that should be a number"),
        ("[9, 6]", "[9, 1.5]", "f.yaml:4: 'b' has a setting 'cost.cpu' that is not convex"),
        ("[9, 6]", "[9, 0]", "f.yaml:4: 'b' has a setting 'cost.cpu' that falls between 5 and 9"),
        (
            "queue: 4",
            "queue: 0",
            "f.yaml:3: 'a' has a setting 'cost.cpu.queue' that should be a num",
        ),
        (
            "cost: {cpu: {q",
            "cost: {gpu: {q",
            "f.yaml:3: 'a' has an unknown setting 'cost.gpu' (known: cpu",
        ),
        ("  a with b", "  a with b: {price: 1}\n  a with b", "f.yaml:7: 'a with b' "),
        ("contracts:", "  c: {tasks: 1}\ncontracts:", "f.yaml:6: 'contracts' do not connect all"),
        ("price: [1, 2], ", "", "f.yaml:6: 'a with b' needs 'price'"),
        ("duration: 30 s", "duration: soon", "f.yaml:6: 'a with b' has a setting 'duration' that"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as error:
        load(GOOD.replace(old, new, 1), "f.yaml")
    assert str(error.value).startswith(said)
