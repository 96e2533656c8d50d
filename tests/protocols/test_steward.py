"""A steward: what it spreads, what it waits for, and when it goes on."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from australis.deployment.deployed import (
    Deployment,
    MemberRole,
    absent,
    avoid,
    begin,
    finish,
    permit,
    submit,
    submitted,
    switch,
    take_over,
)
from australis.kernel.durations import MILLISECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, MessageReceived, Send, TimerFired
from australis.protocols.change.events import (
    Adopt,
    ChangeOptions,
    ChangeWanted,
    EditDecided,
    EditFailed,
    FindProgress,
    Started,
    SubmitEdit,
    SubmitWanted,
    TellChange,
    WithdrawWanted,
)
from australis.protocols.change.messages import (
    Deployed,
    OutputProgress,
    Progress,
    ProgressRequest,
    ReaderProgress,
    Versions,
)
from australis.protocols.change.steward import LOOK, StewardMachine

pytestmark = pytest.mark.unit

NODES = ("a", "b", "c", "d")
STEWARDS = tuple(f"steward@{node}" for node in NODES)


def app() -> Deployment:
    return submitted("app", "", {"near": ("a", "b")}, {"s": "d"})


def moving() -> Deployment:
    return begin(app(), "near", add=["c"], drop=["a"], steward="steward@b")


def output(end: int = 10, **changes: Any) -> OutputProgress:
    plain = {"stream": "out", "ready": True, "held": True, "end": end, "trimmed_upto": 4}
    return OutputProgress(**{**plain, **changes})


def reader(name: str = "client", **changes: Any) -> ReaderProgress:
    plain = {"follows": False, "acknowledged": 9, "heard": True, "awaited": True}
    return ReaderProgress(name, **{**plain, **changes})


class Node:
    """The steward of node b."""

    def __init__(self, deployment: Deployment | None = None, name: str = "steward@b") -> None:
        self.machine = StewardMachine(name, ChangeOptions(), Random(1))
        self.now = 0
        self.first = self.event(Started((deployment or app(),), STEWARDS))

    def event(self, event: Any) -> list[Effect]:
        return list(self.machine.handle(event, self.now))

    def message(self, sender: str, message: Any) -> list[Effect]:
        return self.event(MessageReceived(f"steward@{sender}", message))

    def look(self, after_us: int = 200 * MILLISECOND) -> list[Effect]:
        self.now += after_us
        return self.event(TimerFired(LOOK))

    def reports(self, node: str, one: OutputProgress, version: int = 9) -> None:
        machine = f"near@{node}"
        self.message(node, Progress("app", "near", machine, version, (one,)))

    def edits(self, effects: list[Effect]) -> list[SubmitEdit]:
        return [e for e in effects if isinstance(e, SubmitEdit)]

    def decides(self, effects: list[Effect]) -> Deployment:
        """The register applies the edit that was submitted."""
        (edit,) = self.edits(effects)
        assert edit.edit is not None
        decided = edit.edit(self.machine.deployments["app"])
        self.event(EditDecided(edit.tag, decided))
        return decided


def told(effects: list[Effect]) -> list[str]:
    return [e.outcome for e in effects if isinstance(e, TellChange)]


def ready(node: Node) -> list[Effect]:
    """All report until the steward goes on."""
    for _ in range(ChangeOptions().calm_looks - 1):
        node.reports("b", output())
        node.reports("c", output())
        assert node.edits(node.look()) == []
    node.reports("b", output())
    node.reports("c", output())
    return node.look()


# --- a change from its beginning to its end ---------------------------------------------------


def test_a_change_of_a_user() -> None:
    node = Node()
    (submitted_edit,) = node.edits(node.event(ChangeWanted("t", "app", "near", ("c",), ("a",))))
    assert submitted_edit.edit is not None
    began = submitted_edit.edit(app())
    effects = node.event(EditDecided(submitted_edit.tag, began))
    assert told(effects) == ["begun"]
    assert Adopt(began) in effects
    assert {e.to for e in effects if isinstance(e, Send)} == {*STEWARDS} - {"steward@b"}
    switched = node.decides(ready(node))
    assert switched.machines(MemberRole.LEAVING)["near"] == ("near@a",)
    for one in ("a", "b", "c"):
        node.reports(one, output(readers=(reader(),)))
    (edit,) = node.edits(node.look())
    assert edit.edit is not None
    effects = node.event(EditDecided(edit.tag, edit.edit(switched)))
    assert told(effects) == ["done"]


def test_what_is_refused_is_told_with_its_reason() -> None:
    node = Node()
    (edit,) = node.edits(node.event(ChangeWanted("t", "app", "near", ("b",))))
    assert edit.edit is not None
    with pytest.raises(UserError, match="has a replica on 'b' already"):
        edit.edit(app())
    (said,) = node.event(EditFailed(edit.tag, "has a replica on 'b' already"))
    assert said == TellChange("t", "refused", "has a replica on 'b' already")


# --- when it goes on ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"ready": False}, {"held": False}, {"end": 7}], ids=["no state", "not held", "far"]
)
def test_a_replica_that_is_not_ready_is_not_read(changes: dict[str, Any]) -> None:
    node = Node(moving())
    for _ in range(10):
        node.reports("b", output())
        node.reports("c", output(**changes))
        assert node.edits(node.look()) == []


def test_a_replica_without_a_report_is_not_read() -> None:
    node = Node(moving())
    node.reports("c", output())
    node.reports("b", output())
    for _ in range(10):
        assert node.edits(node.look()) == []


def test_a_change_that_takes_too_long_is_cancelled() -> None:
    node = Node(moving())
    cancelled = node.decides(node.look(ChangeOptions().join_us + 1))
    assert {m.node for m in cancelled.set_of("near").members} == {"a", "b"}
    assert cancelled.change is None


@pytest.mark.parametrize(
    ("here", "there", "what"),
    [
        ({}, {"follows": True}, "it is read"),
        ({"heard": False}, {}, "its reader does not know the others yet"),
        ({"acknowledged": 3}, {"acknowledged": 3}, "its reader needs what others do not have"),
        ({}, {"given": 11}, "its reader may still read in its log"),
    ],
)
def test_a_replica_that_is_needed_is_not_removed(
    here: dict[str, Any], there: dict[str, Any], what: str
) -> None:
    node = Node(switch(moving()))
    for _ in range(5):
        node.reports("b", output(readers=(reader(**here),)))
        node.reports("c", output(readers=(reader(**here),)))
        node.reports("a", output(trimmed_upto=2, readers=(reader(**there),)))
        assert node.edits(node.look()) == [], what


def test_a_client_that_never_came_is_served_by_a_log_that_is_as_long() -> None:
    node = Node(switch(moving()))
    away = reader(acknowledged=-1, heard=False)
    for one in ("a", "b", "c"):
        node.reports(one, output(readers=(away,)))
    assert len(node.edits(node.look())) == 1


def test_a_consumer_whose_lease_is_over_is_not_waited_for() -> None:
    node = Node(switch(moving()))
    gone = reader(acknowledged=-1, heard=False, awaited=False)
    node.reports("b", output(readers=(gone,)))
    node.reports("a", output(trimmed_upto=2, readers=(gone,)))
    assert len(node.edits(node.look())) == 1


def test_members_that_know_an_older_deployment_do_not_count() -> None:
    node = Node(switch(moving()))
    for one in ("a", "b", "c"):
        node.reports(one, output(readers=(reader(),)), version=2)
    assert node.edits(node.look()) == []


def test_an_edit_is_of_the_change_in_the_state_in_which_it_was() -> None:
    node = Node(moving())
    (edit,) = node.edits(ready(node))
    assert edit.edit is not None
    for other in (switch(moving()), finish(switch(moving())), app()):
        with pytest.raises(UserError, match="has gone on meanwhile"):
            edit.edit(other)
    assert edit.edit(moving()) == switch(moving())
    assert node.edits(node.look()) == [], "one at a time"
    (read,) = node.edits(node.event(EditFailed(edit.tag, "", unknown=True)))
    assert read.edit is None, "it looks what has become of it"


def test_another_steward_takes_over_what_is_left() -> None:
    node = Node(begin(app(), "near", add=["c"], steward="steward@d"))
    assert node.edits(node.look(ChangeOptions().join_us)) == []
    taken = node.decides(node.look(8 * ChangeOptions().silent_us))
    assert taken.change is not None
    assert taken.change.steward == "steward@b"


# --- what it spreads ----------------------------------------------------------------------------


def test_who_knows_less_is_told_and_who_knows_more_is_asked() -> None:
    node = Node(moving())
    assert node.message("a", Versions((("app", 1),))) == [Send("steward@a", Deployed(moving()))]
    assert node.message("a", Versions((("app", 2),))) == []
    (asks,) = node.message("a", Versions((("app", 5), ("other", 1))))
    assert asks == Send("steward@a", Versions((), ("app", "other")))
    (answer,) = node.message("a", Versions((), ("app",)))
    assert answer == Send("steward@a", Deployed(moving()))


def test_an_older_deployment_is_not_adopted() -> None:
    node = Node(moving())
    assert node.message("a", Deployed(app())) == []
    newer = take_over(moving(), "steward@c")
    assert Adopt(newer) in node.message("a", Deployed(newer))


def test_reports_are_of_fragments_that_are_known() -> None:
    node = Node(moving())
    assert node.message("a", ProgressRequest("app", "near", 2)) == [
        FindProgress("app", "near", "steward@a")
    ]
    assert node.message("a", ProgressRequest("app", "nearr", 2)) == []
    assert node.message("a", ProgressRequest("other", "near", 2)) == [
        Send("steward@a", Versions((), ("other",)))
    ]
    assert node.message("a", Progress("app", "other", "x@a", 1)) == []


# --- draining -----------------------------------------------------------------------------------


def drained(*nodes: str) -> Deployment:
    deployment = app()
    for node in nodes:
        deployment = avoid(node)(deployment)
    return deployment


def test_the_first_node_that_may_have_it_moves_what_is_on_a_drained_one() -> None:
    first, second = Node(drained("b"), "steward@a"), Node(drained("b"), "steward@c")
    (edit,) = first.edits(first.look())
    assert edit.edit is not None
    change = edit.edit(drained("b")).change
    assert change is not None
    assert (change.add, change.drop, change.steward) == (("c",), ("b",), "steward@a")
    assert not first.edits(first.look()), "the register answers first"
    assert not second.edits(second.look())
    assert second.edits(second.look(6_000_000)), "where nothing happens the next one steps in"


def test_a_drained_replica_goes_to_the_node_that_runs_least_of_its_kind() -> None:
    node = Node(drained("a"))
    node.message("a", Deployed(submitted("other", "", {"x": ("c",)}, {})))
    (edit,) = node.edits(node.look(6_000_000))
    assert edit.edit is not None
    change = edit.edit(drained("a")).change
    assert change is not None
    assert change.add == ("d",)


def test_a_replica_without_another_place_stays_on_a_drained_node() -> None:
    node = Node(drained("a", "c", "d"))
    assert not node.edits(node.look(60_000_000))


def test_nothing_is_added_on_a_drained_node() -> None:
    with pytest.raises(UserError, match="which is being drained"):
        begin(drained("c"), "near", add=["c"])
    assert permit("c")(drained("c")).avoids == ()
    for edit in (avoid("c"), permit("d")):
        with pytest.raises(UserError, match="being drained"):
            edit(drained("c"))


# --- applications that come and go ----------------------------------------------------------------


def test_an_application_is_submitted_and_withdrawn_and_all_are_told() -> None:
    node = Node()
    wanted = submitted("new", "d1", {"f": ("a",)}, {})
    (edit,) = node.edits(node.event(SubmitWanted("t", wanted)))
    assert edit.edit is not None
    first = edit.edit(absent("new"))
    assert first.version == 1
    effects = node.event(EditDecided("user t", first))
    assert {e.to for e in effects if isinstance(e, Send)} == {*STEWARDS} - {"steward@b"}
    assert [e.outcome for e in effects if isinstance(e, TellChange)] == ["done"]
    with pytest.raises(UserError, match="runs already"):
        edit.edit(first)
    (edit,) = node.edits(node.event(WithdrawWanted("u", "new")))
    assert edit.edit is not None
    gone = edit.edit(first)
    assert gone.withdrawn
    again = submit(wanted)(gone)
    assert again.version == 3
    assert again.set_of("f").members[0].incarnation == 1, "its machines have new names"
