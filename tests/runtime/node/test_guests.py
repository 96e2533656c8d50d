"""Guests: readers whom no file names."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from runtime.node.small_cluster import SmallCluster, write_cluster

from australis.kernel.errors import Stopped, UserError
from australis.protocols.dpc.subscribers import GUEST_US, GUESTS
from australis.runtime.certs import issue
from australis.runtime.client import OLDEST, Change, ChangeKind, Subscription, connect
from australis.runtime.node.guests import GUESTS_PER_IDENTITY, Guests
from australis.runtime.node.wire import WireError

pytestmark = pytest.mark.timeout(120)


def taken(subscription: Subscription, rows: int) -> list[Change]:
    """What a subscription brings until it has brought so many stable tuples."""
    changes: list[Change] = []
    while sum(c.rows for c in changes if c.kind is ChangeKind.INSERTION) < rows:
        change = subscription.next(100)
        assert change is not None
        changes.append(change)
    return changes


def stable(changes: list[Change]) -> list[int]:
    return [c.bucket for c in changes if c.kind is ChangeKind.INSERTION]


# --- their mailboxes ---------------------------------------------------------------------------


def test_a_guest_who_has_left_makes_room() -> None:
    now = 0.0
    guests = Guests(lambda: now)
    for i in range(GUESTS):
        guests.heard(f"guest {i}", None)
    with pytest.raises(WireError, match=f"there are {GUESTS} guests already"):
        guests.heard("guest new", None)
    now = GUEST_US / 1e6
    guests.heard("guest 0", None)
    now += 1
    guests.heard("guest new", None)
    assert len(guests) == 2, "the one that was heard of, and the new one"
    guests.send("guest 5", b"nobody is there")


def test_one_certificate_leaves_room_for_others() -> None:
    guests = Guests()
    for i in range(GUESTS_PER_IDENTITY):
        guests.heard(f"guest {i}", "few")
    with pytest.raises(WireError, match=f"'few' has {GUESTS_PER_IDENTITY} guests already"):
        guests.heard("guest new", "few")
    guests.heard("guest new", "operator")


def test_a_guest_is_whoever_came_first() -> None:
    guests = Guests()
    mailbox = guests.heard("guest 1", "a")
    assert guests.heard("guest 1", "a") is mailbox
    with pytest.raises(WireError, match="'b' may not speak for 'guest 1'"):
        guests.heard("guest 1", "b")


# --- what they read ----------------------------------------------------------------------------


def test_a_guest_reads_along(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c, connect(c.path) as connection:
        c.until(lambda: len(c.stable()) > 10)
        before = c.stable_upto
        changes = taken(connection.subscribe("counts", guest=True), 6)
        assert all(b == a + 1 for a, b in pairwise(stable(changes))), "every bucket, in order"
        assert stable(changes)[0] > before, "only what is new"
        c.until(lambda: c.stable_upto >= stable(changes)[-1])
        known = {x.bucket: x.batch for x in c.changes if x.kind is ChangeKind.INSERTION}
        assert all(known[x.bucket] == x.batch for x in changes if x.kind is ChangeKind.INSERTION)


def test_a_guest_reads_a_source_and_what_is_kept(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c, connect(c.path) as connection:
        c.until(lambda: len(c.stable()) > 3)
        changes = taken(connection.subscribe("s1", guest=True, after=OLDEST), 50)
        rows = [row for x in changes if x.batch is not None for row in x.batch.to_pylist()]
        assert set(rows[0]) >= {"k", "v", "_stime"}


def test_a_guest_holds_no_log_back(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c, connect(c.path) as connection:
        c.until(lambda: len(c.stable()) > 3)
        guest = connection.subscribe("counts", guest=True)
        taken(guest, 1)
        guest.close()
        at = c.nodes["a"].output("counts").end
        c.until(lambda: c.nodes["a"].output("counts").trimmed_upto > at + 5)


def test_a_guest_goes_on_when_its_replica_is_gone(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c, connect(c.path) as connection:
        c.until(lambda: len(c.stable()) > 3)
        guest = connection.subscribe("counts", guest=True)
        taken(guest, 3)
        c.stop("a")
        taken(guest, 30)
        c.start("a")
        c.stop("b")
        taken(guest, 30)


def test_a_stream_nobody_has(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c, connect(c.path) as connection:
        with pytest.raises(UserError, match=r"'count' has no log \(did you mean 'counts'\?\)"):
            connection.subscribe("count", guest=True)
        with pytest.raises(UserError, match=r"'merged' has no log \(logged streams: s1, s2, co"):
            connection.subscribe("merged", guest=True)
        for name in ("a", "b"):
            c.stop(name)
        with pytest.raises(UserError, match=r"none of its nodes answers \(a, b\)"):
            connection.subscribe("counts", guest=True)


def test_a_guest_for_whom_there_is_no_room_is_told(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c, connect(c.path) as connection:
        for node in ("a", "b"):
            for i in range(GUESTS):
                c.nodes[node].inbox(None, f"guest {i}", 1)
        guest = connection.subscribe("counts", guest=True)
        with pytest.raises(Stopped, match=f"there are {GUESTS} guests already"):
            taken(guest, 1)


def test_with_certificates(tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    issue(certificates, dict.fromkeys(("a", "b", "e1", "e2", "reader"), ()))
    tls = "tls: {ca: certs/ca.pem, certificates: certs}\n"
    with SmallCluster(tmp_path, extra=tls) as c:
        c.until(lambda: len(c.stable()) > 3)
        for identity in (None, "reader"):
            with connect(c.path, identity=identity) as connection:
                taken(connection.subscribe("counts", guest=True), 3)


def test_clients_that_are_not_there(tmp_path: Path) -> None:
    connection = connect(write_cluster(tmp_path))
    with pytest.raises(UserError, match=r"'readr' is not a client .*\(did you mean 'reader'\?\)"):
        connection.subscribe("counts", client="readr")
    with pytest.raises(UserError, match=r"'s1' is read by no client of .*: reader \(counts\)"):
        connection.subscribe("s1")
    with pytest.raises(UserError, match=r"'cuonts' has no log \(did you mean 'counts'\?\)"):
        connection.subscribe("cuonts")
