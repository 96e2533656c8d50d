"""Waiting times of tuples: queues of servers and links, computed without simulation (ants 3.6).

A *flow* is what one query sends through a server: tuples at a rate, each of which occupies the
server for a time. All flows of a server are aggregated into one (Whitt's aggregation); its waiting
time follows from its load and its variability (Marchal's approximation for G/G/1) and applies to
every tuple at that server.

    here = Demand.of(Flow(rate=40.0, service_s=0.01)) + Demand.of(Flow(rate=10.0, service_s=0.03))
    here.load, here.wait_s          # 0.7 and the mean time in the queue

Demands are sums, so that adding a flow to a server costs the same however many it has. The
approximation is exact for Poisson arrivals (M/G/1: Pollaczek and Khinchine) and only then.
"""
