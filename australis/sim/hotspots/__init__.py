"""Peers that run applications together and relieve each other's hot spots, simulated.

`plan` says which peer offers what, as in the paper or from a file (`peers_file`); `simulation` runs
it, with churn or a central balancer on request; `work` has the queues of the peers' processors.
"""
