"""Contract graphs: random graphs as in the papers (thesis 7.1.2, medusa section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from australis.kernel.errors import UserError

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Graph:
    """Partners with contracts in both directions: those of i are `partners[first[i]:first[i+1]]`."""

    first: NDArray[np.int64]
    partners: Ints

    @property
    def size(self) -> int:
        """The number of participants."""
        return len(self.first) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of contracts of each participant."""
        return np.diff(self.first)


def random_graph(size: int, least: int, rng: np.random.Generator) -> Graph:
    """Each participant joins a present one; then those with fewer than `least` partners choose more
    at random.
    """
    if not 0 < least < size:
        raise UserError(f"should be between 1 and {size - 1}, not {least}", name="contracts")
    joins = (rng.random(size) * np.arange(size)).astype(np.int32)
    order = rng.permutation(size).astype(np.int32)
    a, b = _choose(size, least, joins, order, int(rng.integers(1, 2**31)))
    return from_edges(size, a, b)


def from_edges(size: int, a: Ints, b: Ints) -> Graph:
    """The graph of these pairs, each pair once; partners in the order of the pairs."""
    buyers = np.concatenate([a, b])
    sellers = np.concatenate([b, a])
    # Each participant goes through its contracts in the order in which they were made.
    order = np.argsort(buyers, kind="stable")
    count = np.bincount(buyers, minlength=size)
    first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Graph(first, sellers[order].astype(np.int32))


@njit(cache=True, nogil=True)
def _choose(size, least, joins, order, seed):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    most = 64 + 4 * least
    degree = np.zeros(size, np.int32)
    a = np.empty(size * (least + 1), np.int32)
    b = np.empty(size * (least + 1), np.int32)
    links = np.full((size, most), -1, np.int32)
    count = 0
    for i in range(1, size):
        j = joins[i]
        a[count], b[count] = i, j
        count += 1
        links[i, degree[i]], links[j, degree[j]] = j, i
        degree[i] += 1
        degree[j] += 1
    for at in range(size):
        i = order[at]
        while degree[i] < least:
            j = np.random.randint(0, size)
            if j == i or degree[j] >= most:
                continue
            known = False
            for k in range(degree[i]):
                if links[i, k] == j:
                    known = True
                    break
            if known:
                continue
            a[count], b[count] = i, j
            count += 1
            links[i, degree[i]], links[j, degree[j]] = j, i
            degree[i] += 1
            degree[j] += 1
    return a[:count], b[:count]


def chain(size: int) -> Graph:
    """A chain of participants."""
    a = np.arange(size - 1, dtype=np.int32)
    return from_edges(size, a, a + 1)


def diameter(graph: Graph) -> int:
    """The longest of the shortest paths between two participants."""
    return int(_diameter(graph.first, graph.partners))


@njit(cache=True, nogil=True)
def _diameter(first, partners):  # type: ignore[no-untyped-def]
    size = first.shape[0] - 1
    far = 0
    queue = np.empty(size, np.int32)
    distance = np.empty(size, np.int32)
    for start in range(size):
        distance[:] = -1
        distance[start] = 0
        queue[0] = start
        head, tail = 0, 1
        while head < tail:
            i = queue[head]
            head += 1
            for e in range(first[i], first[i + 1]):
                j = partners[e]
                if distance[j] < 0:
                    distance[j] = distance[i] + 1
                    queue[tail] = j
                    tail += 1
        if tail < size:
            return -1
        far = max(far, distance[queue[tail - 1]])
    return far
