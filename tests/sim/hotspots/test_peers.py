"""Peers that run applications together: from files, with churn, beside a centre."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from australis.kernel.errors import UserError
from australis.sim.hotspots.peers_file import load
from australis.sim.hotspots.plan import Drawn
from australis.sim.hotspots.simulation import HotspotsSetting, HotspotsSimulation, Managed

EXAMPLE = Path(__file__).parents[3] / "examples" / "peers.yaml"
GOOD = """\
operators:
  Filter: {cost: 200 ms}
  Encryption.AES.256: {cost: 500 ms}
peers:
  p1: {offers: [Filter, Encryption.AES.256], speed: 2, others: 1}
  p2: {offers: [Encryption.AES.256]}
applications:
  backup: {operators: [Filter, Encryption.AES.256], rate: 0.4}
hotspots:
  overload: 3
  imbalance: 1
  minutes: 5
  levels: [[0, 2], [1.5, 6], [5]]
"""


def test_everything_a_file_can_say() -> None:
    plan = load(GOOD, "f.yaml")
    assert plan.operators == {"Filter": 0.2, "Encryption.AES.256": 0.5}
    assert plan.peers["p1"].speed == 2.0
    assert plan.peers["p2"].offers == ("Encryption.AES.256",)
    assert plan.applications["backup"].per_s == 0.4
    assert plan.options.thresholds.overload == 3.0
    assert plan.options.levels[1] == (1.5, 6.0)
    assert plan.utilisation == pytest.approx(0.4 * 0.7 / 3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  p2: {", "  p1: {", "f.yaml:6: 'p1' "),
        ("[Encryption.AES.256]}", "[Encryption.AES.512]}", "f.yaml:6: 'p2' names"
         " 'Encryption.AES.512', which is no operator of the ontology"
         " (there are Encryption.AES.256)"),
        ("[Filter, Encryption.AES.256], rate", "[Fliter], rate", "f.yaml:8: 'backup' names 'Fliter'"),
        ("[Filter, Encryption.AES.256], speed", "[Encryption.AES.256], speed",
         "f.yaml:8: 'backup' needs 'Filter', which no peer offers"),
        ("[1.5, 6]", "[2.5, 6]", "f.yaml:13: 'levels' do not cover the"
         " range: nothing between 2 and 2.5"),
        ("overload: 3", "overload: 0.5", "f.yaml:10: 'overload' is 0.5, less than the imbalance of 1"),
        ("minutes: 5", "minutes: 7", "f.yaml:12: 'minutes' is 7: it should be one of 1, 5, 15"),
        ("cost: 200 ms", "cost: dear", "f.yaml:2: 'Filter' has a setting 'cost' that"),
        ("rate: 0.4", "rate: -1", "f.yaml:8: 'backup' has a setting 'rate' that should be a number"),
        ("Filter: {", "Fil..ter: {", "f.yaml:2: 'Fil..ter' is not a name"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as error:
        load(GOOD.replace(old, new, 1), "f.yaml")
    assert str(error.value).startswith(said)


def test_the_example_is_good() -> None:
    assert load(EXAMPLE.read_text(), str(EXAMPLE)).utilisation < 1


def test_all_tuples_arrive_if_nobody_fails() -> None:
    found = HotspotsSimulation(HotspotsSetting(minutes=10)).run()
    assert found.delivered > 500
    assert found.lost == 0
    assert found.moved > 0


def test_components_of_peers_that_fail_are_found_elsewhere() -> None:
    town = HotspotsSimulation(HotspotsSetting(seed=3, minutes=20, churn=0.1))
    found = town.run()
    assert found.failed > 20
    assert found.recomposed > 20
    assert found.homeless == 0
    for application in town.work.applications:
        missing = [c for c in application.chain if c.host not in town.peers]
        assert len(missing) <= 1  # somebody may have failed just now
    assert found.delivered > 100


def test_a_centre_that_knows_everything_keeps_loads_together() -> None:
    setting = HotspotsSetting(minutes=15, drawn=Drawn(peers=15))
    delays = {}
    for managed in (Managed.NOBODY, Managed.CENTRE):
        found = HotspotsSimulation(
            HotspotsSetting(managed=managed, minutes=15, drawn=setting.drawn)
        ).run()
        delays[managed] = fmean(found.delays_s)
        assert (found.moved > 0) == (managed is Managed.CENTRE)
    assert delays[Managed.CENTRE] < delays[Managed.NOBODY]
