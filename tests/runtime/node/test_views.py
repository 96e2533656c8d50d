"""Views of a stream of a cluster, through failures, and clients that hold the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime.node.small_cluster import SmallCluster

from australis.kernel.errors import UserError
from australis.runtime import client as client_module
from australis.runtime.client import ChangeKind, connect
from australis.streams.schema import TupleType

pytestmark = pytest.mark.timeout(120)
LIMIT_S = 60
ABSENT = "  absent: {stream: counts}\n"
"""A client that does not come has the whole log kept: guests miss nothing, however slow."""


def test_a_view_through_a_failure(tmp_path: Path) -> None:
    with (
        SmallCluster(tmp_path, clients=ABSENT) as c,
        connect(c.path) as connection,
        connection.view("counts") as view,
        connection.view("counts", stable_only=True, last="1 h") as final,
    ):
        c.until(lambda: view.arrow().num_rows > 5)
        for replica in ("a", "b"):
            c.cut(replica, "e2")
        c.until(lambda: view.tentative > 5)
        assert final.tentative == 0
        table = view.arrow()
        kinds = table["_type"].to_pylist()
        assert kinds == sorted(kinds), "what is tentative follows what is stable"
        assert set(kinds) == {TupleType.INSERTION, TupleType.TENTATIVE}
        for replica in ("a", "b"):
            c.heal(replica, "e2")
        c.settle()
        assert view.wait(LIMIT_S, upto=c.stable_upto)
        assert final.wait(LIMIT_S, upto=c.stable_upto)
        c.until(lambda: view.tentative == 0)
        for one in (view, final):
            assert one.arrow().to_pylist() == c.stable()
            assert one.skipped == 0
        assert len(view.pandas()) == len(view.arrow())


def test_a_view_of_the_last_tuples(tmp_path: Path) -> None:
    with (
        SmallCluster(tmp_path, clients=ABSENT) as c,
        connect(c.path) as connection,
        connection.view("counts", last=4) as view,
    ):
        c.until(lambda: len(c.stable()) > 10)
        c.settle()
        assert view.wait(LIMIT_S, upto=c.stable_upto)
        assert view.arrow().to_pylist() == c.stable()[-4:]
        with pytest.raises(UserError, match="is not a duration: 'ten'"):
            connection.view("counts", last="ten")


def test_stable_changes_only(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c, connect(c.path) as connection:
        c.until(lambda: len(c.stable()) > 3)
        stable = connection.subscribe("counts", guest=True, stable_only=True)
        for replica in ("a", "b"):
            c.cut(replica, "e2")
        c.until(lambda: c.tentative > 5)
        for replica in ("a", "b"):
            c.heal(replica, "e2")
        c.settle()
        heard = []
        while not heard or heard[-1].bucket < c.stable_upto:
            change = stable.next(LIMIT_S)
            assert change is not None
            heard.append(change)
        assert {change.kind for change in heard} <= {ChangeKind.INSERTION, ChangeKind.SKIPPED}


def test_a_client_that_holds_its_log_can_read_it_again(tmp_path: Path) -> None:
    clients = "  keeper: {stream: counts}\n"
    with SmallCluster(tmp_path, clients=clients) as c, connect(c.path) as connection:
        keeper = connection.subscribe("counts", "keeper", hold=True)
        first = [change for change in (keeper.next(LIMIT_S) for _ in range(20)) if change]
        assert [x.kind for x in first] == [ChangeKind.INSERTION] * 20
        done = first[9].bucket
        keeper.acknowledge(done)
        replicas = ("a", "b")
        c.until(lambda: all(c.nodes[n].output("counts").trimmed_upto == done for n in replicas))
        keeper.close()
        while keeper.next(LIMIT_S) is not None:
            pass
        assert keeper.next() is None, "it says so again to whoever asks again"
        end = c.nodes["a"].output("counts").end
        c.until(lambda: c.stable_upto > end + 10)
        assert all(c.nodes[n].output("counts").trimmed_upto == done for n in replicas)
        again = connection.subscribe("counts", "keeper", after=done, hold=True)
        assert [again.next(LIMIT_S) for _ in range(10)] == first[10:]
        plain = connection.subscribe("counts", guest=True)
        with pytest.raises(UserError, match="subscribe with hold=True"):
            plain.acknowledge(done)


def test_changes_nobody_takes_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_QUEUED_BYTES", 200)
    with SmallCluster(tmp_path, max_delay="10 s") as c, connect(c.path) as connection:
        idle = connection.subscribe("counts", guest=True)
        c.until(lambda: idle._waiting_bytes >= 200)
        most = idle._waiting_bytes
        at = c.stable_upto
        c.until(lambda: c.stable_upto > at + 10)
        assert idle._waiting_bytes == most
        assert idle.next(LIMIT_S) is not None
