"""Agents in the simulated world, and the queues of the modules they decide for.

`schedule` draws games and faults, `checks` holds what agents did against the centralized
solution (`expected`), `broken` has agents with one wrong decision each. `queues` simulates tasks in
queues with finite room, where the model of `elasticity` assumes back-pressure.
"""
