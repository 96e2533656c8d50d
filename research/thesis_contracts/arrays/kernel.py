"""The bounded-price mechanism over arrays: all participants of a run in one compiled loop.

It is equivalent to `protocols.contracts` if all tasks are equal and messages take no time:
participants wake up one after the other, each goes through its contracts, and offer, answer and
movement happen at once (thesis 7.1.1). Prices are only compared with marginal costs, so the load
that a participant keeps or takes at a price is a number of tasks, computed beforehand.

A participant that has nothing to offer is skipped until a partner moves tasks to it; it then wakes
up at its usual time. This makes a million participants affordable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from australis.protocols.contracts.buying import extra_steps

NEVER = np.iinfo(np.int64).max
IDLE = -1
"""The cursor of a participant that is not negotiating."""

# Indices of the counters.
MOVEMENTS, TASKS, OFFERS, COUNTERS, RELEASES, LAST_US, ENDED_US = range(7)

_extra_steps = njit(cache=True, nogil=True)(extra_steps)


@njit(cache=True, nogil=True)
def _push(times, nodes, size, time, node):  # type: ignore[no-untyped-def]
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if times[up] < time or (times[up] == time and nodes[up] < node):
            break
        times[at], nodes[at] = times[up], nodes[up]
        at = up
    times[at], nodes[at] = time, node
    return size + 1


@njit(cache=True, nogil=True)
def _pop(times, nodes, size):  # type: ignore[no-untyped-def]
    """Remove the earliest entry; the heap is smaller by one."""
    size -= 1
    time, node = times[size], nodes[size]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        other = down + 1
        if other < size and (
            times[other] < times[down]
            or (times[other] == times[down] and nodes[other] < nodes[down])
        ):
            down = other
        if time < times[down] or (time == times[down] and node < nodes[down]):
            break
        times[at], nodes[at] = times[down], nodes[down]
        at = down
    times[at], nodes[at] = time, node
    return size


@njit(cache=True, nogil=True)
def run(  # type: ignore[no-untyped-def]
    load,
    curve,
    marginal,
    capacity,
    first,
    seller,
    high,
    keeps,
    takes,
    takes_most,
    wakes,
    period,
    step,
    above,
    quiet,
    until,
    changes_at,
    changes_node,
    changes_by,
    series,
    counted,
):
    """Run until nothing has moved for `quiet`, or until the time is up.

    `load` changes in place. The contracts of participant i as a buyer are `first[i]` up to
    `first[i + 1]`, cheapest first: at the lowest price it keeps `keeps` tasks, its partner takes
    up to `takes`, and at the highest up to `takes_most`. `changes` are tasks that come and go.
    In `series` each row is one period: movements, tasks moved, tasks above capacity.
    """
    n = load.shape[0]
    kept = np.zeros(n, np.int32)
    cursor = np.full(n, IDLE, np.int32)
    held = np.zeros(seller.shape[0], np.int32)
    price = np.zeros(seller.shape[0], np.float64)
    lost = np.zeros(seller.shape[0], np.uint8)
    wakes_next = wakes.copy()
    failures = np.zeros(n, np.int32)
    waits = np.ones(n, np.uint8)
    times = np.empty(n + 1, np.int64)
    nodes = np.empty(n + 1, np.int32)
    size = 0
    excess = np.int64(0)
    for i in range(n):
        size = _push(times, nodes, size, wakes[i], i)
        excess += max(0, load[i] - capacity[i])
    change = 0
    moved_at: Any = np.int64(0)
    now: Any = np.int64(0)
    row = 0
    while True:
        upcoming = times[0] if size else NEVER
        external = changes_at[change] if change < changes_at.shape[0] else NEVER
        following = min(upcoming, external)
        if following == NEVER or following > until:
            break
        if external == NEVER and following > moved_at + quiet:
            break
        now = following
        while row < series.shape[0] and now >= (row + 1) * period:
            series[row, 2] = excess
            row += 1
        if external <= upcoming:
            j = changes_node[change]
            by = changes_by[change]
            change += 1
            excess -= max(0, load[j] - capacity[j])
            load[j] = max(0, load[j] + by)
            excess += max(0, load[j] - capacity[j])
            if waits[j] == 0 and by > 0 and first[j] < first[j + 1] and load[j] > keeps[first[j]]:
                waits[j] = 1
                late = max(0, now - wakes_next[j])
                due = wakes_next[j] + (late + period - 1) // period * period
                size = _push(times, nodes, size, due, j)
            continue
        i = nodes[0]
        size = _pop(times, nodes, size)
        e = first[i] if cursor[i] == IDLE else np.int64(cursor[i])
        begun = cursor[i] != IDLE
        went = 0
        target = np.int64(-1)
        paused = False
        while e < first[i + 1]:
            offers = load[i] - keeps[e]
            if offers <= 0:
                break
            j = seller[e]
            counted[OFFERS] += 1
            room = takes[e] - load[j] - kept[j]
            if room > 0:
                went = min(offers, room)
                target = j
                lost[e] = 0
                break
            here = load[j] + kept[j]
            if here < takes_most[e]:
                worth = marginal[curve[j], here]
                asked = worth if lost[e] else min(worth + above, high[e])
                held[e] = 1 if asked < high[e] else min(offers, takes_most[e] - here)
                kept[j] += held[e]
                price[e] = asked
                counted[COUNTERS] += 1
                begun = True
                e += 1
                paused = True
                break
            e += 1
        if paused:
            cursor[i] = e
            size = _push(times, nodes, size, now + step, i)
            continue
        rest = period
        if begun:
            if went == 0:
                best: Any = np.int64(-1)
                for f in range(first[i], first[i + 1]):
                    if held[f] > 0 and (best < 0 or price[f] < price[best]):
                        best = f
                if best >= 0:
                    while went < held[best] and load[i] - went > 0:
                        if marginal[curve[i], load[i] - went - 1] <= price[best]:
                            break
                        went += 1
                    target = seller[best]
            if went == 0:
                failures[i] += 1
                rest += step * _extra_steps(wakes[i], failures[i])
            for f in range(first[i], first[i + 1]):
                if held[f] > 0:
                    kept[seller[f]] -= held[f]
                    won = went > 0 and seller[f] == target
                    lost[f] = 0 if won else 1
                    if not won:
                        counted[RELEASES] += 1
                    held[f] = 0
            cursor[i] = IDLE
        if went > 0:
            j = target
            excess -= max(0, load[i] - capacity[i]) + max(0, load[j] - capacity[j])
            load[i] -= went
            load[j] += went
            excess += max(0, load[i] - capacity[i]) + max(0, load[j] - capacity[j])
            counted[MOVEMENTS] += 1
            counted[TASKS] += went
            if row < series.shape[0]:
                series[row, 0] += 1
                series[row, 1] += went
            moved_at = now
            if waits[j] == 0 and first[j] < first[j + 1] and load[j] > keeps[first[j]]:
                waits[j] = 1
                late = max(0, now - wakes_next[j])
                due = wakes_next[j] + (late + period - 1) // period * period
                size = _push(times, nodes, size, due, j)
        wakes_next[i] = now + rest
        if load[i] > keeps[first[i]] if first[i] < first[i + 1] else False:
            size = _push(times, nodes, size, wakes_next[i], i)
        else:
            waits[i] = 0
    while row < series.shape[0]:
        series[row, 2] = excess
        row += 1
    counted[LAST_US] = moved_at
    counted[ENDED_US] = now
