"""What a trace says of lanes: what has happened, not what was only attempted."""

from __future__ import annotations

from random import Random

import pytest

from australis.diagram.diagram_file import load
from australis.protocols.dpc.effects import InstallSnapshot, SnapshotInstalled
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.topology import deploy
from australis.runtime.node.lane_trace import of_effect, of_event

pytestmark = pytest.mark.unit

DIAGRAM = """\
diagram: d
sources: {s: {generate: connections}}
operators: {large: {filter: s, where: bytes > 100}}
"""


def test_a_snapshot_is_installed_when_it_has_come() -> None:
    """One that another replica refuses leaves all as it was."""
    topology = deploy(load(DIAGRAM, "d.yaml"), {"large": ("a", "b")}, {"client": "large"})
    machine = ReplicaMachine(topology.replicas[0], DpcOptions(), Random(0))
    assert of_effect(machine, InstallSnapshot("large", 7, 0, None)) == {}
    told = of_event(machine, SnapshotInstalled("large", 7, 3))
    assert told == {"installed": {"output": "large", "inputs": [("s", "")]}}
