"""Stabilising one after the other (4.7.3, figure 4-12)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.machine import Effect, Send
from australis.protocols.dpc.messages import ReconcileAnswer, ReconcileDone, ReconcileRequest
from australis.protocols.dpc.stagger import Stagger

WAIT, LEASE = 10, 100
YES, NO = True, False


def staggers(*names: str) -> list[Stagger]:
    return [
        Stagger(name, tuple(n for n in names if n != name), Random(1), WAIT, LEASE)
        for name in names
    ]


def only(effects: list[Effect]) -> tuple[str, object]:
    """The one message that is sent."""
    (send,) = effects
    assert isinstance(send, Send)
    return send.to, send.message


def answer(effects: list[Effect]) -> bool:
    _, message = only(effects)
    assert isinstance(message, ReconcileAnswer)
    return message.granted


def reconciling(one: Stagger, peer: str, now: int = 0) -> None:
    """Let it ask this peer, and be granted permission."""
    to, request = only(one.ask(now))
    assert to == peer
    assert isinstance(request, ReconcileRequest)
    one.answered(peer, ReconcileAnswer(request.number, YES), now)
    assert one.active


def test_a_replica_that_has_no_need_of_its_own_grants() -> None:
    a, b = staggers("a", "b")
    to, request = only(a.ask(0))
    assert to == "b"
    reply = b.asked("a", request, needs=False, now=1)
    assert answer(reply)
    a.answered("b", only(reply)[1], now=2)
    assert (a.active, a.alone, b.active) == (True, False, False)


def test_a_replica_that_reconciles_refuses() -> None:
    _, b = staggers("a", "b")
    reconciling(b, "a")
    assert not answer(b.asked("a", ReconcileRequest(1), needs=False, now=1))


def test_of_two_that_need_to_the_lower_name_goes_first() -> None:
    a, b = staggers("a", "b")
    assert not answer(a.asked("b", ReconcileRequest(1), needs=True, now=0))
    assert answer(b.asked("a", ReconcileRequest(1), needs=True, now=0))


def test_a_promise_keeps_a_node_from_asking() -> None:
    _, b = staggers("a", "b")
    b.asked("a", ReconcileRequest(1), needs=False, now=0)
    assert b.ask(1) == []
    assert not b.active


def test_a_promise_is_over_when_the_other_is_done() -> None:
    _, b = staggers("a", "b")
    b.asked("a", ReconcileRequest(1), needs=False, now=0)
    b.released("a")
    assert only(b.ask(1))[0] == "a"


def test_a_promise_to_a_node_that_died_ends_with_its_lease() -> None:
    _, b = staggers("a", "b")
    b.asked("a", ReconcileRequest(1), needs=False, now=0)
    assert b.ask(LEASE - 1) == []
    assert only(b.ask(LEASE))[0] == "a"


def test_a_node_promises_to_stay_available_for_one_at_a_time() -> None:
    _, _, c = staggers("a", "b", "c")
    assert answer(c.asked("a", ReconcileRequest(1), needs=False, now=0))
    assert not answer(c.asked("b", ReconcileRequest(1), needs=False, now=1))
    c.released("a")
    assert answer(c.asked("b", ReconcileRequest(2), needs=False, now=2))


def test_a_repeated_request_gets_the_same_answer() -> None:
    _, b = staggers("a", "b")
    assert answer(b.asked("a", ReconcileRequest(1), needs=True, now=0))
    assert answer(b.asked("a", ReconcileRequest(1), needs=True, now=1))


def test_a_refused_node_asks_again_after_a_while() -> None:
    a, _ = staggers("a", "b")
    _, request = only(a.ask(0))
    assert isinstance(request, ReconcileRequest)
    a.answered("b", ReconcileAnswer(request.number, NO), now=1)
    assert not a.active
    assert a.ask(WAIT) == [], "too soon"
    _, again = only(a.ask(1 + WAIT))
    assert isinstance(again, ReconcileRequest)
    assert again.number > request.number


def test_a_node_whose_replicas_are_silent_goes_on_alone() -> None:
    a, *_ = staggers("a", "b", "c")
    first, _ = only(a.ask(0))
    assert a.ask(WAIT - 1) == [], "it waits for the answer"
    second, _ = only(a.ask(WAIT))
    assert {first, second} == {"b", "c"}
    assert a.ask(2 * WAIT) == []
    assert (a.active, a.alone) == (True, True)


def test_a_node_without_replicas_is_alone_at_once() -> None:
    (a,) = staggers("a")
    a.ask(0)
    assert (a.active, a.alone) == (True, True)


def test_crossing_requests_never_make_both_active() -> None:
    a, b = staggers("a", "b")
    _, from_a = only(a.ask(0))
    _, from_b = only(b.ask(0))
    said_by_b = only(b.asked("a", from_a, needs=True, now=1))[1]
    said_by_a = only(a.asked("b", from_b, needs=True, now=1))[1]
    a.answered("b", said_by_b, now=2)
    b.answered("a", said_by_a, now=2)
    assert (a.active, b.active) == (True, False)


def test_a_grant_that_comes_too_late_is_given_back() -> None:
    _, b = staggers("a", "b")
    _, request = only(b.ask(0))
    assert isinstance(request, ReconcileRequest)
    assert answer(b.asked("a", ReconcileRequest(1), needs=True, now=1)), "b has promised to wait"
    to, message = only(b.answered("a", ReconcileAnswer(request.number, YES), now=2))
    assert (to, type(message)) == ("a", ReconcileDone)
    assert not b.active


def test_who_is_done_frees_the_replica_that_waited() -> None:
    a, _ = staggers("a", "b")
    reconciling(a, "b")
    to, message = only(a.done())
    assert (to, type(message)) == ("b", ReconcileDone)
    assert (a.active, a.alone) == (False, False)
    assert a.done() == [], "once is enough"


def test_who_was_alone_has_nobody_to_free() -> None:
    a, _ = staggers("a", "b")
    a.ask(0)
    a.ask(WAIT)
    assert a.alone
    assert a.done() == []


class Crowd:
    """Replicas that all need to reconcile, and a network that loses, repeats and reorders.

    `steps` decides what happens next; time stands still, so no lease runs out.
    """

    def __init__(self, names: str) -> None:
        self.nodes = dict(zip(names, staggers(*names), strict=True))
        self.under_way: list[tuple[str, str, object]] = []

    def step(self, kind: str, pick: int) -> None:
        names = sorted(self.nodes)
        name = names[pick % len(names)]
        node = self.nodes[name]
        match kind:
            case "ask":
                self._send(name, node.ask(0))
            case "done":
                self._send(name, node.done())
            case "lose" if self.under_way:
                self.under_way.pop(pick % len(self.under_way))
            case "deliver" if self.under_way:
                self._deliver(*self.under_way.pop(pick % len(self.under_way)))
            case "repeat" if self.under_way:
                self._deliver(*self.under_way[pick % len(self.under_way)])

    def _send(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Send)
            self.under_way.append((name, effect.to, effect.message))

    def _deliver(self, sender: str, to: str, message: object) -> None:
        node = self.nodes[to]
        match message:
            case ReconcileRequest():
                self._send(to, node.asked(sender, message, needs=True, now=0))
            case ReconcileAnswer():
                self._send(to, node.answered(sender, message, now=0))
            case ReconcileDone():
                node.released(sender)

    @property
    def all_suspend(self) -> bool:
        return all(n.active and not n.alone for n in self.nodes.values())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "deliver", "deliver", "deliver", "repeat", "done", "lose"]),
        st.integers(0, 11),
    ),
    max_size=60,
)


@pytest.mark.parametrize("names", ["ab", "abc"])
@given(steps=STEPS)
def test_never_do_all_replicas_suspend_at_once(names: str, steps: list[tuple[str, int]]) -> None:
    crowd = Crowd(names)
    for kind, pick in steps:
        crowd.step(kind, pick)
        assert not crowd.all_suspend
