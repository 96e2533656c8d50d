"""Nodes in network namespaces of their own, with TLS between them; cables are pulled.

Needs to be root and `ip`; other tests use the switch that nodes have for rehearsals.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from chaos.small import write_diagram

from australis.runtime.certs import issue
from australis.runtime.testbed import Testbed
from australis.scenarios.recorded import broken_promises

NODES = ("a", "b", "e1", "e2")
ADDRESSES = {node: f"10.213.7.{10 + number}" for number, node in enumerate(NODES)}
BRIDGE = "austral0"
HERE = "10.213.7.1"
MAX_DELAY_S = 3
CLUSTER = """
cluster: small
diagram: diagram.yaml
state: state
max_delay: {max_delay} s
heartbeat: 100 ms
nodes:
{nodes}
replicas: {{counts: [a, b]}}
sources: {{s1: e1, s2: e2}}
clients: {{reader: {{stream: counts}}}}
faults: allowed
tls: {{ca: certs/ca.pem, certificates: certs}}
"""


def ip(*words: str) -> bool:
    return subprocess.run(["ip", *words], check=False, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.xdist_group("network"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("ip") is None or not ip("netns", "add", "australis-probe"),
        reason="network namespaces cannot be made here",
    ),
]
ip("netns", "del", "australis-probe")


class Cables:
    """A bridge with a cable to each node's namespace."""

    def __init__(self) -> None:
        self.close()
        self._do("link", "add", BRIDGE, "type", "bridge")
        self._do("addr", "add", f"{HERE}/24", "dev", BRIDGE)
        self._do("link", "set", BRIDGE, "up")
        for node, address in ADDRESSES.items():
            space = f"australis-{node}"
            self._do("netns", "add", space)
            self._do("link", "add", f"au-{node}", "type", "veth", "peer", "eth0", "netns", space)
            self._do("link", "set", f"au-{node}", "master", BRIDGE, "up")
            self._do("-n", space, "link", "set", "lo", "up")
            self._do("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            self._do("-n", space, "link", "set", "eth0", "up")

    def _do(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def pull(self, node: str) -> None:
        """Nothing goes in or out, and nobody is told."""
        self._do("link", "set", f"au-{node}", "down")

    def plug_in(self, node: str) -> None:
        self._do("link", "set", f"au-{node}", "up")

    def close(self) -> None:
        for node in NODES:
            ip("netns", "del", f"australis-{node}")
            ip("link", "del", f"au-{node}")
        ip("link", "del", BRIDGE)


@pytest.fixture(scope="module")
def cables() -> Iterator[Cables]:
    made = Cables()
    yield made
    made.close()


@pytest.fixture(scope="module")
def testbed(cables: Cables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    directory = tmp_path_factory.mktemp("network")
    write_diagram(directory)
    nodes = "\n".join(
        f'  {name}: {{address: "{address}:7400", engine: reference}}'
        for name, address in ADDRESSES.items()
    )
    path = directory / "cluster.yaml"
    path.write_text(CLUSTER.format(nodes=nodes, max_delay=MAX_DELAY_S))
    hosts = {name: [address] for name, address in ADDRESSES.items()}
    issue(directory / "certs", hosts | {"reader": [], "operator": []}, 2)
    within = {name: ("ip", "netns", "exec", f"australis-{name}") for name in NODES}
    with Testbed(path, "counts", within=within) as one:
        one.wait_until_stable()
        one.wait(2)
        yield one
    assert broken_promises(one) == [], "the simulated world's checkers over all of it"


def settles(testbed: Testbed) -> None:
    """All goes on, nothing is tentative any more, and everything is right."""
    upto = testbed.stable_upto
    testbed.until(lambda: testbed.stable_upto > upto + 20, "it does not go on")
    testbed.until(lambda: set(testbed.states().values()) == {"STABLE"}, "not stable again")
    testbed.until(lambda: not testbed.uncorrected, "not everything was corrected")
    verdict = testbed.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)


def test_the_cable_of_a_source_for_a_moment(testbed: Testbed, cables: Cables) -> None:
    told = len(testbed.tentative())
    cables.pull("e2")
    testbed.wait(1)
    cables.plug_in("e2")
    settles(testbed)
    assert len(testbed.tentative()) == told


def test_the_cable_of_a_source_for_long(testbed: Testbed, cables: Cables) -> None:
    told = len(testbed.tentative())
    cables.pull("e2")
    testbed.until(
        lambda: len(testbed.tentative()) > told, "nothing tentative came", MAX_DELAY_S * 3
    )
    testbed.wait(5)
    cables.plug_in("e2")
    settles(testbed)


@pytest.mark.parametrize("times", range(2))
def test_the_cable_of_the_replica_in_use(testbed: Testbed, cables: Cables, times: int) -> None:
    told, upto = len(testbed.tentative()), testbed.stable_upto
    node = testbed.followed()
    cables.pull(node)
    testbed.until(lambda: testbed.followed() != node, "the client does not switch")
    testbed.until(lambda: testbed.stable_upto > upto + 50, "it does not go on")
    cables.plug_in(node)
    settles(testbed)
    assert len(testbed.tentative()) == told


def test_a_cable_that_is_loose(testbed: Testbed, cables: Cables) -> None:
    for _ in range(6):
        cables.pull("e1")
        testbed.wait(0.7)
        cables.plug_in("e1")
        testbed.wait(0.7)
    settles(testbed)


def test_all_cables_at_once(testbed: Testbed, cables: Cables) -> None:
    for node in NODES:
        cables.pull(node)
    testbed.wait(MAX_DELAY_S + 1)
    for node in NODES:
        cables.plug_in(node)
    settles(testbed)
