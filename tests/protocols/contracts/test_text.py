"""Federation files, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import InFlight, Load, Polyline, Step
from australis.protocols.contracts.text import load

EXAMPLE = Path(__file__).parents[3] / "examples" / "federation.yaml"
GOOD = """\
federation: test
participants:
  a: {tasks: 3, task: {cpu: 0.1, memory: 5}, cost: {cpu: {queue: 4}, memory: {limit: 9, penalty: 2}}}
  b: {tasks: 1, cost: {cpu: {points: [[0, 0], [5, 1], [9, 6]]}}}
contracts:
  a with b: {price: [1, 2], duration: 30 s, unit: {cpu: 0.5}, kinds: [x], forwarding: refused}
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
    assert contract.kinds == ("x",)
    assert not contract.may_forward
    assert contract.unit == Load(cpu=0.5)


def test_the_example_is_good() -> None:
    assert len(load(EXAMPLE.read_text(), str(EXAMPLE)).contracts) == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[1, 2]", "[3, 2]", "f.yaml:6: 'a with b' has a price between 3 and 2"),
        ("a with b", "a with c", "f.yaml:6: 'c' is no participant (participants: a, b)"),
        ("a with b", "a and b", "f.yaml:6: 'a and b' should be BUYER with SELLER"),
        ("tasks: 1,", "tasks: -1,", "f.yaml:4: 'b' has a setting 'tasks' that should be a number"),
        ("[9, 6]", "[9, 1.5]", "f.yaml:4: 'b' has a setting 'cost' that is not convex"),
        ("[9, 6]", "[9, 0]", "f.yaml:4: 'b' has a setting 'cost' that falls between 5 and 9"),
        ("queue: 4", "queue: 0", "f.yaml:3: 'a' has a setting 'cost' that should be more than"),
        ("cost: {cpu: {q", "cost: {gpu: {q", "f.yaml:3: 'a' has a setting 'cost' that should say"),
        ("  a with b", "  a with b: {price: 1}\n  a with b", "f.yaml:7: 'a with b' "),
        ("contracts:", "  c: {tasks: 1}\ncontracts:", "f.yaml:6: 'contracts' do not connect every"),
        ("price: [1, 2], ", "", "f.yaml:6: 'a with b' needs 'price'"),
        ("duration: 30 s", "duration: soon", "f.yaml:6: 'a with b' has a setting 'duration' that"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as error:
        load(GOOD.replace(old, new, 1), "f.yaml")
    assert str(error.value).startswith(said)
