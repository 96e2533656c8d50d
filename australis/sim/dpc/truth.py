"""When each node and link really worked: the external reference for delay and inconsistency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.outputs import OutputConfig
from australis.protocols.dpc.topology import ClientConfig, Topology, node_of
from australis.sim.faults import Fault, Kind

Span = tuple[int, int]
"""A time interval."""
Pair = frozenset[str]
"""The two ends of a link."""

_OF_LINKS = (Kind.CUT, Kind.CUT_ONE_WAY, Kind.LOSSY, Kind.SLOW_LINK)
_RECOVERS = (Kind.CRASH, Kind.WIPE, Kind.PAUSE, Kind.SLOW)


class Truth:
    """The working times of all parts, for one topology and one schedule."""

    def __init__(
        self, topology: Topology, faults: Iterable[Fault], options: DpcOptions, end_us: int
    ) -> None:
        self._topology = topology
        self._faults = tuple(faults)
        self._options = options
        self._end = end_us
        self._outputs: dict[str, list[tuple[str, OutputConfig]]] = {}
        for replica in topology.replicas:
            for output in replica.outputs:
                self._outputs.setdefault(output.stream, []).append((replica.name, output))

    @property
    def switch_us(self) -> int:
        """The longest time to detect a failure, switch and replay a little."""
        return self._options.heartbeat_us * (self._options.misses + 2) + 1_500_000

    # --- trees ---------------------------------------------------------------------------

    def outages(self, client: ClientConfig) -> list[Span]:
        """The intervals in which no tree worked long enough to deliver stable results to a client.

        If some tree failed shortly before the last one did, it may have been the one that the
        client followed, and there was no time to switch: then the outage began earlier.
        """
        good: list[Span] = []
        failures: list[Span] = []
        for nodes in self._trees(client):
            faults = self._bad(set(nodes), self._links(nodes), self._recovery_us)
            bad = merge([*faults, *self._held_up(nodes)])
            good += [(a, b) for a, b in gaps(bad, self._end) if b - a >= self.switch_us]
            failures += bad
        found = []
        for begin, end in gaps(merge(good), self._end):
            early = begin - self.switch_us
            others = [max(a, early) for a, b in failures if a < begin and b > early]
            found.append((min(others, default=begin), end))
        return merge(found)

    def _trees(self, client: ClientConfig) -> Iterator[tuple[str, ...]]:
        fragments: dict[tuple[str, ...], None] = {}
        sources: dict[str, None] = {}
        todo = [client.stream]
        seen: set[str] = set()
        while todo:
            stream = todo.pop()
            if stream in seen:
                continue
            seen.add(stream)
            if stream not in self._outputs:
                sources[stream] = None
                continue
            fragments[tuple(sorted(name for name, _ in self._outputs[stream]))] = None
            todo += self._outputs[stream][0][1].inputs
        for replicas in product(*fragments):
            yield (client.name, *sources, *replicas)

    def _links(self, nodes: Iterable[str]) -> set[frozenset[str]]:
        """The links between some nodes that carry a stream."""
        chosen = set(nodes)
        links: set[frozenset[str]] = set()
        for source, consumers in self._topology.sources.items():
            links |= {frozenset((source, node_of(c))) for c in consumers}
        for producers in self._outputs.values():
            for name, output in producers:
                links |= {frozenset((name, node_of(c))) for c in output.consumers}
        return {link for link in links if link <= chosen}

    def _held_up(self, nodes: Iterable[str]) -> Iterator[Span]:
        """The intervals in which replicas that take turns wait for one that delays its own turn."""
        if self._options.staggered:
            chosen = set(nodes)
            peers = {p for r in self._topology.replicas if r.name in chosen for p in r.peers}
            for fault in self._faults:
                if fault.kind is Kind.SLOW and fault.node in peers:
                    yield fault.at_us, fault.until_us + self._recovery_us(fault)

    # --- paths ----------------------------------------------------------------------------

    def good_paths(self, client: ClientConfig) -> dict[str, list[Span]]:
        """For each source the intervals in which some path from it worked throughout.

        Where an operator on the path cannot do without other inputs, some path from a source of
        each of them has worked as well.
        """
        found: dict[str, list[Span]] = {}
        for source, links in self._paths(client.stream, client.name):
            nodes = set().union(*links)
            if self._options.staggered:
                nodes |= {p for r in self._topology.replicas if r.name in nodes for p in r.peers}
            bad = merge(self._bad(nodes, set(links), self._settling_us))
            found.setdefault(source, []).extend(gaps(bad, self._end))
        return {source: _longest(spans) for source, spans in found.items()}

    def _paths(self, stream: str, reader: str) -> Iterator[tuple[str, frozenset[Pair]]]:
        """The sources from which a reader gets something of a stream, each with the links that it
        takes."""
        if stream not in self._outputs:
            yield stream, frozenset([frozenset((stream, reader))])
            return
        for name, output in self._outputs[stream]:
            last = frozenset([frozenset((name, reader))])
            for upstream in output.inputs:
                needed = self._needed(output, upstream)
                for source, links in self._paths(upstream, name):
                    for others in product(*(self._paths(one, name) for one in needed)):
                        yield source, last.union(links, *(more for _, more in others))

    def _needed(self, output: OutputConfig, upstream: str) -> list[str]:
        """The other inputs without which an output has nothing of this one."""
        others = [one for one in output.inputs if one != upstream]
        if not output.blocked(others):
            return []
        return [one for one in others if output.blocked({one})] or others

    # --- faults ------------------------------------------------------------------------------

    def _bad(self, nodes: set[str], links: set[frozenset[str]], after: object) -> Iterator[Span]:
        assert callable(after)
        for fault in self._faults:
            pair = frozenset((fault.node, fault.other))
            touched = pair in links if fault.kind in _OF_LINKS else fault.node in nodes
            if touched:
                yield fault.at_us, self._mended(fault) + after(fault)

    def _mended(self, fault: Fault) -> int:
        """When a fault is over; a node without its disk needs a replica to help it."""
        if fault.kind is not Kind.WIPE:
            return fault.until_us
        peers = next(r.peers for r in self._topology.replicas if r.name == fault.node)
        if not peers:  # then it takes all inputs, from upstream logs
            return self._over(fault.until_us, lambda other: True)
        return min(self._reachable(peer, fault.node, fault.until_us) for peer in peers)

    def _reachable(self, peer: str, node: str, at: int) -> int:
        """The first moment from which one node can help another."""

        def between(fault: Fault) -> bool:
            pair = {fault.node, fault.other}
            return pair == {peer, node} if fault.kind in _OF_LINKS else fault.node == peer

        return self._over(at, between)

    def _over(self, at: int, matters: Callable[[Fault], bool]) -> int:
        """The first moment from this one on at which no relevant fault is active."""
        for fault in sorted(self._faults, key=lambda f: f.at_us):
            until = fault.until_us + self._recovery_us(fault)
            if matters(fault) and fault.at_us <= at < until:
                at = until
        return at

    def _recovery_us(self, fault: Fault) -> int:
        """How long after a fault its node needs to catch up."""
        return fault.lasts_us // 3 + 3_000_000 if fault.kind in _RECOVERS else 0

    def _settling_us(self, fault: Fault) -> int:
        """The recovery time, plus the time until the node's neighbours have found it again."""
        return self._recovery_us(fault) + self.switch_us


def merge(spans: Iterable[Span]) -> list[Span]:
    """Intervals in order, with adjacent and overlapping ones joined.

    >>> merge([(5, 7), (1, 3), (2, 4)])
    [(1, 4), (5, 7)]
    """
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def gaps(spans: Iterable[Span], end: int) -> Iterator[Span]:
    """The intervals between merged ones, from zero to the end.

    >>> list(gaps([(1, 4), (5, 7)], 9))
    [(0, 1), (4, 5), (7, 9)]
    """
    at = 0
    for begin, until in spans:
        if begin > at:
            yield at, begin
        at = max(at, until)
    if at < end:
        yield at, end


def _longest(spans: list[Span]) -> list[Span]:
    """The intervals that no other one contains."""
    kept: list[Span] = []
    for begin, end in sorted(set(spans), key=lambda s: (s[0], -s[1])):
        if not kept or end > kept[-1][1]:
            kept.append((begin, end))
    return kept
