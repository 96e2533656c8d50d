"""Replicas that are added, moved and dropped on running nodes, while a client reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import SmallCluster, check

from australis.deployment.deployed import MemberRole
from australis.kernel.errors import UserError

pytestmark = pytest.mark.live


def change(c: SmallCluster, at: str, **what: Any) -> None:
    """Have a change begun by a node, and wait until all nodes know that it has ended."""
    begun = c.nodes[at].change({"fragment": "counts", **what})

    def ended() -> bool:
        known = [node.deployment for node in c.nodes.values()]
        return all(d.version > begun["version"] and d.change is None for d in known)

    c.until(ended, 40)


def members(c: SmallCluster) -> list[str]:
    return sorted(m.node for m in c.nodes["e1"].deployment.set_of("counts").members)


def test_a_replica_moves_while_a_client_reads(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 5)
        change(c, "b", add=["e1"], drop=["a"])
        assert members(c) == ["b", "e1"]
        assert not c.nodes["a"].engines
        c.until(lambda: not (tmp_path / "state" / "a" / "counts@a").exists())
        change(c, "e2", add=["e2"], drop=["b"])
        assert members(c) == ["e1", "e2"]
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 5)
        assert c.tentative == 0, "nobody has noticed"
        check(c)


def test_a_deployment_outlives_restarts_and_new_readers_find_it(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 3)
        change(c, "a", add=["e1"], drop=["a"])
        c.stop("b")
        c.stop("a")
        c.start("a")
        c.start("b")
        assert c.nodes["a"].deployment.version == 4
        assert not c.nodes["a"].engines
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 5)
        check(c)
        change(c, "b", add=["a"], drop=["e1"])
        machines = c.nodes["b"].deployment.machines(MemberRole.FULL)["counts"]
        assert set(machines) == {"counts@b", "counts@a#1"}
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 5)
        check(c)


def test_what_cannot_be_changed_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 1)
        node = c.nodes["a"]
        for what, sentence in (
            ({"fragment": "counts", "add": ["b"]}, "has a replica on 'b' already"),
            ({"fragment": "counts", "add": ["f"]}, "'f' is not a node of this cluster"),
            ({"fragment": "count", "add": ["e1"]}, "no fragment of 'small'.*counts"),
            ({"fragment": "counts", "drop": ["a", "b"]}, "would have no replica left"),
        ):
            with pytest.raises(UserError, match=sentence):
                node.change(what)
        assert node.deployment.version == 1
