"""Deployments as data: edits, their preconditions, and what follows from any sequence of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.deployment.deployed import (
    Deployment,
    MemberRole,
    begin,
    cancel,
    finish,
    submitted,
    switch,
    take_over,
    withdraw,
)
from australis.kernel.errors import UserError

pytestmark = pytest.mark.unit

JOINING, FULL, LEAVING = MemberRole
NODES = ("a", "b", "c", "d")


def app() -> Deployment:
    return submitted("app", "digest", {"near": ("a", "b"), "far": ("c",)}, {"s": "a"})


def roles(deployment: Deployment, fragment: str = "near") -> dict[str, MemberRole]:
    return {m.node: m.role for m in deployment.set_of(fragment).members}


def test_a_move_joins_switches_and_removes() -> None:
    began = begin(app(), "near", add=["c"], drop=["a"], steward="b")
    assert roles(began) == {"a": FULL, "b": FULL, "c": JOINING}
    switched = switch(began)
    assert roles(switched) == {"a": LEAVING, "b": FULL, "c": FULL}
    done = finish(switched)
    assert roles(done) == {"b": FULL, "c": FULL}
    assert [app().version, began.version, switched.version, done.version] == [1, 2, 3, 4]
    assert done.change is None
    assert began.change is not None
    assert began.change.steward == "b"


def test_a_node_that_comes_back_has_a_machine_with_another_name() -> None:
    gone = finish(switch(begin(app(), "near", add=["c"], drop=["a"])))
    back = finish(switch(begin(gone, "near", add=["a"], drop=["c"])))
    again = finish(switch(begin(back, "near", add=["c"], drop=["a"])))
    machines = [d.machines(FULL)["near"] for d in (app(), back, again)]
    assert machines == [("near@a", "near@b"), ("near@b", "near@a#1"), ("near@b", "near@c#1")]


def test_what_was_cancelled_leaves_nothing_but_its_incarnation() -> None:
    cancelled = cancel(begin(app(), "near", add=["c"], drop=["a"]))
    assert roles(cancelled) == roles(app())
    assert begin(cancelled, "near", add=["c"]).machines(JOINING)["near"] == ("near@c#1",)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda d: begin(d, "nearr", add=["c"]), "'nearr' is no fragment of 'app'.*near"),
        (lambda d: begin(d, "near", add=["a"]), "'near' has a replica on 'a' already"),
        (lambda d: begin(d, "near", drop=["d"]), "'d' has no replica of 'near'"),
        (lambda d: begin(d, "near"), "'near' neither gains nor loses a replica"),
        (lambda d: begin(d, "far", drop=["c"]), "'far' would have no replica left"),
        (lambda d: switch(d), "'app' has no pending change"),
        (lambda d: begin(begin(d, "near", add=["c"]), "far", add=["a"]), "is changing already"),
        (lambda d: finish(begin(d, "near", add=["c"])), "is read by nobody yet"),
        (lambda d: cancel(switch(begin(d, "near", add=["c"]))), "only goes forward"),
        (lambda d: switch(switch(begin(d, "near", add=["c"]))), "has switched already"),
        (lambda d: begin(withdraw(d), "near", add=["c"]), "'app' was withdrawn"),
        (lambda d: withdraw(withdraw(d)), "was withdrawn already"),
    ],
)
def test_what_cannot_be(edit: object, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        edit(app())  # type: ignore[operator]


def test_no_fragment_begins_without_a_replica_or_with_two_on_a_node() -> None:
    with pytest.raises(UserError, match="'near' has no replica"):
        submitted("app", "", {"near": ()}, {})
    with pytest.raises(UserError, match="two replicas on one node"):
        submitted("app", "", {"near": ("a", "a")}, {})


Step = st.one_of(
    st.tuples(
        st.just("begin"),
        st.sampled_from(("near", "far")),
        st.sets(st.sampled_from(NODES)),
        st.sets(st.sampled_from(NODES)),
    ),
    st.tuples(st.sampled_from(("switch", "finish", "cancel", "take over"))),
)


@given(st.lists(Step, max_size=30))
def test_whatever_is_edited_every_fragment_keeps_a_full_member(
    steps: list[tuple[object, ...]],
) -> None:
    deployment = app()
    names: dict[str, int] = {}
    for what, *of in steps:
        before = deployment
        try:
            match what:
                case "begin":
                    fragment, add, drop = of
                    deployment = begin(deployment, fragment, add=sorted(add), drop=sorted(drop))  # type: ignore[call-overload,arg-type]
                case "switch":
                    deployment = switch(deployment)
                case "finish":
                    deployment = finish(deployment)
                case "cancel":
                    deployment = cancel(deployment)
                case "take over":
                    deployment = take_over(deployment, "d")
        except UserError:
            assert deployment is before
            continue
        assert deployment.version == before.version + 1
        for one in deployment.sets:
            assert one.full
            assert len({m.node for m in one.members}) == len(one.members)
            if deployment.change is None or deployment.change.fragment != one.fragment:
                assert one.full == one.members
            for member in set(one.members) - set(before.set_of(one.fragment).members):
                if member.role is JOINING:  # a machine's name is never used again
                    assert names.setdefault(member.machine(one.fragment), deployment.version) == (
                        deployment.version
                    )
        decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(deployment), type=Deployment)
        assert decoded == deployment
