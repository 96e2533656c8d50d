"""The checkers themselves: each passes a good sequence and fails on a bad one."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from protocols.dpc.hand import STABLE, Node, options, status, want
from protocols.dpc.story import chain

from australis.diagram.fragments import cut
from australis.kernel.durations import SECOND
from australis.protocols.dpc.messages import Bucket, Heartbeat
from australis.protocols.dpc.options import LogBounds
from australis.protocols.dpc.proxies import Insertions, RecDone, Skipped, Tentatives, Undo
from australis.protocols.dpc.states import Phase
from australis.sim.dpc.checkers.bounded import BoundedBuffers
from australis.sim.dpc.checkers.corrected import Corrected
from australis.sim.dpc.checkers.delay import BoundedDelay
from australis.sim.dpc.checkers.kept import KeptUpstream
from australis.sim.dpc.checkers.logs import EqualLogs
from australis.sim.dpc.checkers.logs_bounded import BoundedLogs
from australis.sim.dpc.checkers.masked import ShortFailuresMasked
from australis.sim.dpc.checkers.one_at_a_time import OneAtATime
from australis.sim.dpc.checkers.progress import ForwardProgress
from australis.sim.dpc.checkers.stable import StableAtClients
from australis.sim.dpc.checkers.subscribed import Subscribed
from australis.sim.dpc.engine import Digest, DigestEngine, SharedEngine
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.probes import Checker, Probe, Violation
from australis.sim.dpc.store import SimLog


def digest(number: int, what: str = "right") -> Digest:
    return Digest(f"{what} {number}".encode())


def bucket(number: int, what: str = "right") -> Bucket:
    return Bucket(number, number * SECOND, digest(number, what))


def say(word: str, what: str = "right") -> Any:
    """S3 is stable, T3 tentative, U3 undo to 3, R is REC_DONE."""
    number = int(word[1:] or 0)
    return {
        "S": lambda: Insertions(bucket(number, what)),
        "T": lambda: Tentatives(bucket(number, what)),
        "U": lambda: Undo(number),
        "R": RecDone,
    }[word[0]]()


def tell(checker: Checker, words: str) -> Checker:
    for now, word in enumerate(words.split()):
        checker.delivered("c", say(word), now * SECOND)
    return checker


class Knowing(Oracle):
    """An oracle that knows by itself what is right."""

    def __init__(self) -> None:
        super().__init__({}, {})

    def same(self, stream: str, bucket: Bucket) -> bool:
        return bool(bucket.batch == digest(bucket.number))


# --- stable -------------------------------------------------------------------------------


def stable() -> StableAtClients:
    return StableAtClients(Knowing(), {"c": "x"})


def test_stable_tuples_in_order() -> None:
    checker = tell(stable(), "S0 S1 T2 T3 U1 S2 S3 R S4")
    assert isinstance(checker, StableAtClients)
    assert checker.end == {"c": 4}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("S0 S2", "got bucket 2 after 0"),
        ("S0 S0", "got bucket 0 after 0"),
        ("S0 S1 S0", "got bucket 0 after 1"),
        ("S0 S1 U0", "undo to 0, stable are 1"),
        ("S0 T1 U1", "undo to 1, stable are 0"),
    ],
    ids=["lost", "twice", "reordered", "undone", "undo beyond the end"],
)
def test_stable_tuples_lost_repeated_reordered_or_undone(words: str, why: str) -> None:
    with pytest.raises(Violation, match=why):
        tell(stable(), words)


def test_stable_tuples_that_differ_from_the_fault_free_run() -> None:
    with pytest.raises(Violation, match="other tuples in bucket 0"):
        stable().delivered("c", say("S0", "wrong"), 0)


class Newest(Knowing):
    """It also knows that the stream has come to bucket 20."""

    def end(self, stream: str) -> int:
        return 20


def test_only_what_is_older_than_promised_may_be_skipped() -> None:
    checker = StableAtClients(Newest(), {"c": "x"}, promised=6)
    checker.delivered("c", Skipped(-1, 14), 0)
    assert checker.end == {"c": 14}
    checker.delivered("c", say("S15"), 0)
    with pytest.raises(Violation, match="buckets up to 16 of 20 are gone"):
        checker.delivered("c", Skipped(15, 16), 0)


def test_nothing_may_be_skipped_where_logs_are_not_bounded() -> None:
    with pytest.raises(Violation, match="are gone"):
        StableAtClients(Newest(), {"c": "x"}).delivered("c", Skipped(-1, 0), 0)


# --- logs ------------------------------------------------------------------------------------


def test_logs_that_equal_the_fault_free_run() -> None:
    logs = EqualLogs(Knowing())
    logs.appended("n1", "x", -1, [bucket(0), bucket(1)])
    logs.appended("n1", "x", 1, [bucket(2)])
    with pytest.raises(Violation, match="n2 logged other tuples in bucket 1"):
        logs.appended("n2", "x", -1, [bucket(0), bucket(1, "wrong")])


def test_logs_in_which_a_bucket_stands_at_another_place() -> None:
    with pytest.raises(Violation, match="logged bucket 2 of x at place 1"):
        EqualLogs(Knowing()).appended("n1", "x", 0, [bucket(2)])


# --- corrected ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "S0 S1 S2",
        "S0 T1 T2 U0 S1 S2 R S3",
        "T0 T1 U-1 S0 T2 S1 S2 R",
        "T0 T1 U-1 S0 U0 R T1 T2 U0 S1 S2 R",
    ],
)
def test_corrected(words: str) -> None:
    checker = Corrected(["c"])
    tell(checker, words).finish()
    assert checker.waits_for == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("T0 S0", "over tentative ones without UNDO"),
        ("S0 T0", "tentatively though it is stable"),
        ("T0 T0", "tentatively twice"),
        ("S0 R", "REC_DONE without UNDO"),
        ("T0 U-1 T0 R", "REC_DONE though buckets"),
        ("T0 T1 T2 U-1 S0 R", "REC_DONE before bucket 2 was corrected"),
    ],
)
def test_not_corrected_in_order(words: str, why: str) -> None:
    with pytest.raises(Violation, match=why):
        tell(Corrected(["c"]), words)


@pytest.mark.parametrize(
    ("words", "why"), [("S0 T1", "still believes"), ("S0 T1 U0 S1", "no REC_DONE")]
)
def test_not_corrected_in_the_end(words: str, why: str) -> None:
    checker = Corrected(["c"])
    tell(checker, words)
    assert checker.waits_for != ""
    with pytest.raises(Violation, match=why):
        checker.finish()


def test_tentative_tuples_are_counted() -> None:
    checker = Corrected(["c"])
    tell(checker, "T0 T1 U-1 S0 S1 R")
    assert checker.tentative == 2


# --- delay ------------------------------------------------------------------------------------------


def delay(*spans: tuple[int, int]) -> BoundedDelay:
    """Bucket n is logged n seconds into the run; it may take 4 s."""
    checker = BoundedDelay({"c": {"s": list(spans)}}, 4 * SECOND, from_bucket=1)
    for number in range(20):
        checker.entered("s", [bucket(number)], number * SECOND)
    return checker


ALWAYS = (0, 100 * SECOND)


def test_in_time_stable_or_tentative() -> None:
    checker = delay(ALWAYS)
    checker.delivered("c", say("S1"), 5 * SECOND)
    checker.delivered("c", say("T2"), 6 * SECOND)
    assert checker.checked == 2
    assert checker.worst == 4 * SECOND


def test_too_late() -> None:
    checker = delay(ALWAYS)
    checker.delivered("c", say("S1"), 5 * SECOND)
    with pytest.raises(Violation, match="heard of bucket 2"):
        checker.delivered("c", say("T2"), 6 * SECOND + 1)


def test_a_bucket_that_was_skipped_is_late_too() -> None:
    with pytest.raises(Violation, match="heard of bucket 1"):
        delay(ALWAYS).delivered("c", say("T3"), 5 * SECOND + 1)


def test_corrections_are_not_new() -> None:
    checker = delay(ALWAYS)
    checker.delivered("c", say("T5"), 5 * SECOND)
    checker.delivered("c", say("S1"), 60 * SECOND)
    assert checker.worst <= 4 * SECOND


def test_late_while_no_path_worked_throughout() -> None:
    checker = delay((0, 5 * SECOND), (20 * SECOND, 100 * SECOND))
    checker.delivered("c", say("S1"), 5 * SECOND)
    checker.delivered("c", say("S8"), 50 * SECOND)
    assert checker.checked == 1


# --- masked -----------------------------------------------------------------------------------------


def masked(*outages: tuple[int, int]) -> ShortFailuresMasked:
    spans = [(begin * SECOND, end * SECOND) for begin, end in outages]
    return ShortFailuresMasked({"c": spans}, shortest_us=4 * SECOND, settling_us=SECOND)


def test_tentative_after_a_long_outage() -> None:
    checker = masked((10, 20))
    for at in (14, 20, 26):
        checker.delivered("c", say("T9"), at * SECOND)
    with pytest.raises(Violation, match="no outage was long enough"):
        checker.delivered("c", say("T9"), 27 * SECOND)


def test_tentative_after_a_short_outage() -> None:
    with pytest.raises(Violation, match="no outage was long enough"):
        masked((10, 13)).delivered("c", say("T9"), 12 * SECOND)


def test_stable_tuples_need_no_outage() -> None:
    checker = masked()
    checker.delivered("c", say("S9"), 12 * SECOND)
    with pytest.raises(Violation):
        checker.delivered("c", say("T9"), 12 * SECOND)


# --- kept -------------------------------------------------------------------------------------------


def test_a_node_with_its_disk_must_find_what_it_needs() -> None:
    node = Node("x1", "y1", peers=("n2",)).stable(4)
    checker = KeptUpstream({"n2"})
    checker.looked("n1", node.machine)
    node.answer("x1", status("x", STABLE, 20, trimmed_upto=9))
    with pytest.raises(Violation, match="forgotten what n1 needs next for out"):
        checker.looked("n1", node.machine)
    for lost_its_disk in ("n1", "x1"):
        KeptUpstream({lost_its_disk}).looked("n1", node.machine)


# --- subscribed -------------------------------------------------------------------------------------


def test_tuples_only_for_those_who_asked() -> None:
    checker = Subscribed()
    checker.heard("n1", "c", Heartbeat(1, 1, (want("x"),)))
    checker.sent("n1", "c", "x")
    with pytest.raises(Violation, match="n1 sends y to c"):
        checker.sent("n1", "c", "y")
    with pytest.raises(Violation, match="n1 sends x to d"):
        checker.sent("n1", "d", "x")


def test_who_only_asks_how_one_is_has_not_subscribed() -> None:
    checker = Subscribed()
    checker.heard("n1", "c", Heartbeat(1, 1, (want("x", log=False),)))
    with pytest.raises(Violation, match="never subscribed"):
        checker.sent("n1", "c", "x")


# --- bounded ----------------------------------------------------------------------------------------


def test_buffers_within_their_windows() -> None:
    node = Node("x1", "y1", input_window=16).stable(0)
    node.give("x1", 16, 0)
    checker = BoundedBuffers(options(input_window=16))
    checker.looked("n1", node.machine)
    assert checker.most == 16
    node.machine.inputs["x"].stable.add((Bucket(17, 0),), 17)
    with pytest.raises(Violation, match="n1 holds 17 stable"):
        checker.looked("n1", node.machine)


def test_a_log_longer_than_allowed() -> None:
    node = Node("x1", "y1", log=LogBounds(max_buckets=4), batch_buckets=1).stable(0)
    checker = BoundedBuffers(options(log=LogBounds(max_buckets=4), batch_buckets=1))
    checker.looked("n1", node.machine)
    node.out.end = node.out.trimmed_upto + 6
    with pytest.raises(Violation, match="4 are allowed"):
        checker.looked("n1", node.machine)


def test_a_release_to_a_log_that_is_full() -> None:
    log = SimLog()
    log.append([Bucket(0, 0, Digest(b"", 3)), Bucket(1, 0, Digest(b"", 2))])
    bounds = LogBounds(max_bytes=400)
    checker = BoundedLogs(options(log=bounds), lambda node, stream: log)
    checker.entered("s", [Bucket(1, 0, Digest(b"", 2))], 0)
    with pytest.raises(Violation, match="n1 appends to the log of out, which has 500 bytes of 400"):
        checker.appended("n1", "out", 1, [])
    log.truncate(0)
    checker.appended("n1", "out", 1, [])
    checker = BoundedLogs(options(log=LogBounds(max_buckets=1)), lambda node, stream: log)
    with pytest.raises(Violation, match="which has 1 buckets of 1"):
        checker.appended("n1", "out", 1, [])


# --- turns ------------------------------------------------------------------------------------------


def test_two_replicas_that_take_their_turn_at_once() -> None:
    nodes = {name: Node("x1", staggered=True, name=name) for name in ("n1", "n2")}
    peers = {"n1": ("n2",), "n2": ("n1",)}
    checker = OneAtATime(peers.__getitem__, lambda name: nodes[name].machine)
    nodes["n1"].machine.stagger.active = True
    checker.looked("n1", nodes["n1"].machine)
    nodes["n2"].machine.stagger.active = True
    with pytest.raises(Violation, match="n1 stabilises while n2 does"):
        checker.looked("n1", nodes["n1"].machine)
    nodes["n2"].machine.stagger.alone = True
    checker.looked("n1", nodes["n1"].machine)


def test_two_replicas_that_suspend_new_tuples_at_once() -> None:
    nodes = {name: Node("x1", staggered=True, name=name) for name in ("n1", "n2")}
    peers = {"n1": ("n2",), "n2": ("n1",)}
    checker = OneAtATime(peers.__getitem__, lambda name: nodes[name].machine)
    nodes["n1"].out.phase = Phase.STABILIZATION
    checker.looked("n1", nodes["n1"].machine)
    nodes["n2"].out.phase = Phase.STABILIZATION
    with pytest.raises(Violation, match="n1 suspends new tuples of out while n2 does"):
        checker.looked("n1", nodes["n1"].machine)


def test_a_replica_that_is_down_has_no_turn() -> None:
    node = Node("x1", staggered=True)
    node.machine.stagger.active = True
    checker = OneAtATime(lambda name: ("n2",), lambda name: None)
    checker.looked("n1", node.machine)
    assert node.out.state is not STABLE


# --- progress ---------------------------------------------------------------------------------------


def test_something_stable_every_so_often() -> None:
    checker = ForwardProgress(["c"], 5 * SECOND, until_us=20 * SECOND)
    for at in (4, 9, 14, 19):
        checker.delivered("c", say(f"S{at}"), at * SECOND)
    checker.finish()
    assert checker.longest == 5 * SECOND


def test_nothing_stable_for_too_long() -> None:
    checker = ForwardProgress(["c"], 5 * SECOND, until_us=20 * SECOND)
    checker.delivered("c", say("T9"), 3 * SECOND)
    with pytest.raises(Violation, match="nothing stable for 6"):
        checker.delivered("c", say("S0"), 6 * SECOND)
    with pytest.raises(Violation, match="nothing stable"):
        checker.finish()


# --- the oracle and the probe -------------------------------------------------------------------------


def test_the_oracle_computes_what_the_sources_have_logged() -> None:
    (fragment,) = cut(chain())
    plans = {plan.output: plan for plan in fragment.plans}
    oracle = Oracle(plans, {"merged": SharedEngine(DigestEngine())})
    for source in ("s1", "s2"):
        oracle.entered(source, [bucket(0), bucket(1)])
    assert oracle.end("merged") == -1, "s3 is missing"
    oracle.entered("s3", [bucket(0)])
    assert oracle.end("merged") == 0
    _, batch = DigestEngine().step(DigestEngine.initial, (digest(0),) * 3, 0)
    assert oracle.same("merged", Bucket(0, 0, batch))
    assert not oracle.same("merged", Bucket(0, 0, digest(0)))


def test_the_oracle_skips_what_it_was_told_before() -> None:
    oracle = Oracle({"out": SimpleNamespace(inputs=("s",))}, {"out": SharedEngine(DigestEngine())})  # type: ignore[dict-item]
    oracle.entered("s", [bucket(0)])
    oracle.entered("s", [bucket(0), bucket(1)])
    assert oracle.end("out") == 1


def test_a_violation_passes_from_one_process_to_another() -> None:
    found = pickle.loads(pickle.dumps(Violation("logs", "they differ")))
    assert (found.checker, found.said, str(found)) == ("logs", "they differ", "logs: they differ")


def test_a_probe_asks_only_checkers_that_care() -> None:
    class Counts(Checker):
        def __init__(self) -> None:
            self.seen = 0

        def delivered(self, client: str, what: Any, now: int) -> None:
            self.seen += 1

    counts = Counts()
    probe = Probe([counts, Checker()])
    probe.delivered("c", say("S0"), 0)
    probe.sent("n1", "c", "x")
    assert counts.seen == 1
