"""Sparse listings of stable buckets mean the same as listing every bucket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from protocols.dpc.hand import Node, bucket, status

from australis.kernel.durations import SECOND
from australis.protocols.dpc.effects import RunStable, RunTentative
from australis.protocols.dpc.messages import Bucket, StreamStatus
from australis.protocols.dpc.spans import Span, StableBuckets, entry_times

ENTRIES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20)


def sparse(dense: list[Bucket]) -> tuple[Bucket, ...]:
    """Only the buckets that a listing needs."""
    following = [*dense[1:], None]
    return tuple(
        b
        for b, after in zip(dense, following, strict=True)
        if b.batch is not None or after is None or after.entered_us != b.entered_us
    )


@given(ENTRIES, st.data())
def test_what_is_not_listed_is_known_all_the_same(
    entries: list[tuple[int, bool]], data: st.DataObject
) -> None:
    dense = [Bucket(n, at, f"rows {n}" if full else None) for n, (at, full) in enumerate(entries)]
    held, last = StableBuckets(), len(dense) - 1
    cut = data.draw(st.integers(-1, last))
    if cut >= 0:
        held.add(sparse(dense[: cut + 1]), cut, "here")
    if cut < last:
        held.add(sparse(dense[cut + 1 :]), last)
    after, upto = sorted(data.draw(st.tuples(st.integers(-1, last), st.integers(-1, last))))
    spans = held.between(after, upto)
    again = StableBuckets(after)
    for span in spans:
        assert span.buckets[-1].number == span.upto
        again.add(span.buckets, span.upto, span.log)
    for number in range(after + 1, upto + 1):
        assert again.get(number) == held.get(number) == dense[number]
    held.forget(upto)
    assert [held.get(n) for n in range(upto + 1)] == [None] * (upto + 1)
    assert [held.get(n) for n in range(upto + 1, last + 1)] == dense[upto + 1 :]


@given(ENTRIES, ENTRIES)
def test_an_output_bucket_enters_with_the_first_of_its_inputs(
    one: list[tuple[int, bool]], other: list[tuple[int, bool]]
) -> None:
    size = min(len(one), len(other))
    inputs = [[Bucket(n, at) for n, (at, _) in enumerate(e[:size])] for e in (one, other)]
    runs = entry_times([(Span(-1, size - 1, sparse(dense)),) for dense in inputs])
    found, number = {}, 0
    for upto, at in runs:
        while number <= upto:
            found[number] = at
            number += 1
    assert found == {n: min(d[n].entered_us for d in inputs) for n in range(size)}


def test_stable_work_carries_what_each_input_has() -> None:
    node = Node("x1", "y1").stable(0)
    node.slow = True
    node.now = 4 * SECOND
    node.give("x1", 3, 0)
    node.give("y1", 2, 0)
    (job,) = [e for e in node.jobs if isinstance(e, RunStable)]
    listed = (bucket(1), bucket(2))
    assert job.inputs == ((Span(0, 2, listed),), (Span(0, 2, listed),))


def test_tentative_work_carries_the_stable_bucket_or_else_the_overlays() -> None:
    node = Node("x1", "y1").stable(0)
    node.slow = True
    node.silence(8, x1=node_status("x", 5))
    node.give("x1", 5, 0)
    node.silence(4, x1=node_status("x", 5))
    job = next(e for e in node.jobs if isinstance(e, RunTentative))
    assert job.inputs == ((Span(job.bucket - 1, job.bucket, (bucket(job.bucket),)),), ())


def node_status(stream: str, end: int) -> StreamStatus:
    return status(stream, end=end)
