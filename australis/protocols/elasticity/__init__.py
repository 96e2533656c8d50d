"""Agents that choose their modules' numbers of cores by messages between neighbours (games 4, 5).

Every module of a flow graph has an agent. At the start of each control step the agents find the
best equilibrium (`find_pne`) together: each proposes its pace to its neighbours, takes the slowest
pace it hears, and passes that on. After a number of exchanges equal to the graph's diameter all
agents know the slowest pace. Without cooperation the step ends here (`rounds=1`, algorithm 1). With
incentives (algorithm 2) further rounds follow: the bottleneck's agent is paid for taking more
cores, and the agents find the equilibrium again and add up their costs (`aggregation`: along a
tree, or by push-sum), until the total cost no longer falls or the last round is over.

    machine = AgentMachine(seats(graph)["edges"], module, ElasticityOptions(rounds=20))
    machine.handle(Started(cores=4), now)
    machine.handle(Measured(running_s=7.9), now)      # whenever there is something to tell
    machine.handle(TimerFired("step"), now)           # the world fires what was asked for

The driver of an agent carries out `SetCores`; `TellSettled` reports how a step ended. Where modules
share the cores of a node the driver also tells each of their agents, before a step, the least
service time that the node allows now (`Measured.least_s`, from `elasticity.shared.least_pace_s`):
an agent that is not told keeps to the initial value, and its inertia may keep cores that other
modules of the node need.

Guarantees, even if messages are lost and other agents fail:

1. A control step ends by its deadline, with one choice, and `SetCores` at most once.
2. If all messages come through, and however late they do before the deadline, the choice is that of
   `elasticity.equilibrium.best_equilibrium` or `elasticity.incentives.cooperate`.
3. Lost messages are requested again. A silent agent is left out; then the outcome of the first
   round is valid, or that of the last round whose total cost all agents know.

Where this differs from the paper:

- Agents send the pace that they could sustain at the source instead of their service time. Both are
  equivalent, and the receiver need not know which fraction of the tasks reaches its neighbour.
- The slowest pace is forwarded as received, not recomputed from a number of cores, so that all
  agents have exactly the same number and the bottleneck knows that it is one.
- Algorithm 2 applies the round before the last, this implementation the best round. With push-sum,
  where agents may disagree whether the last round was better, the first agent that finds it was not
  tells all others; and when the rounds run out, the last round from which all continued is applied.
- An incentive never exceeds the price of a core, where the paper's ideal degree has no value.
- A step may leave the number of cores as it is, if changing it costs more than it saves (`inertia`).
"""
