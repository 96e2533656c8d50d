"""Queues whose waits are known exactly, to compare with: M/M/1, M/M/c, M/G/1, D/M/1."""

from __future__ import annotations

from math import exp, factorial, inf


def mm1_wait_s(rate: float, service_s: float) -> float:
    """Poisson arrivals, exponential service times, one server.

    >>> mm1_wait_s(5.0, 0.1)
    0.1
    """
    load = rate * service_s
    return inf if load >= 1 else load / (1 - load) * service_s


def mmc_wait_s(rate: float, service_s: float, servers: int) -> float:
    """The same with several servers and one queue (Erlang C).

    >>> round(mmc_wait_s(5.0, 0.1, 1), 9), round(mmc_wait_s(10.0, 0.1, 2), 9)
    (0.1, 0.033333333)
    """
    offered = rate * service_s
    load = offered / servers
    if load >= 1:
        return inf
    all_busy = offered**servers / factorial(servers) / (1 - load)
    some_free = sum(offered**n / factorial(n) for n in range(servers))
    waits = all_busy / (some_free + all_busy)
    return waits * service_s / (servers * (1 - load))


def mg1_wait_s(rate: float, service_s: float, service_scv: float) -> float:
    """Poisson arrivals, any service times (Pollaczek and Khinchine).

    >>> mg1_wait_s(5.0, 0.1, 0.0)
    0.05
    """
    load = rate * service_s
    return inf if load >= 1 else load / (1 - load) * (1 + service_scv) / 2 * service_s


def dm1_wait_s(rate: float, service_s: float) -> float:
    """Arrivals at equal times, exponential service times: the root of sigma = e^(-(1-sigma)/rho).

    >>> round(dm1_wait_s(5.0, 0.1), 6)
    0.025498
    """
    load = rate * service_s
    if load >= 1:
        return inf
    sigma = 0.5
    for _ in range(200):
        sigma = exp(-(1 - sigma) / load)
    return sigma / (1 - sigma) * service_s
