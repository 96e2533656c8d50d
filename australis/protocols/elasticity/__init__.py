"""Agents that choose how many cores their modules have, each talking to its neighbours only (games 4, 5).

Every module of a flow graph has an agent. At the beginning of each control step the agents find the
best equilibrium (`find_pne`), all at once: each tells its neighbours how fast it would let tasks in,
takes the slowest of what it hears, and tells that. After as many exchanges as the graph is wide all
know the slowest. Everybody for itself, that is all (`rounds=1`, algorithm 1). With incentives
(algorithm 2) they go on: the agent that holds up the others is paid for taking more cores, all find the
equilibrium again and add up what they pay (`aggregation`: along a tree, or by push-sum), until it is
no longer less, or until the last round.

    machine = AgentMachine(seats(graph)["edges"], module, ElasticityOptions(rounds=20))
    machine.handle(Started(cores=4), now)
    machine.handle(Measured(running_s=7.9), now)      # whenever there is something to tell
    machine.handle(TimerFired("step"), now)           # the world fires what was asked for

Whoever drives an agent carries out `SetCores`; `TellSettled` says how a step ended. Where modules share
the cores of a node it also tells each of their agents, before a step, what the node allows now
(`Measured.least_s`, from `elasticity.shared.least_times_s`): an agent that is not told goes by what the
node allowed at first, and may keep cores out of inertia that others there need.

Promises, whatever becomes of messages and of other agents:

1. A control step ends by its deadline, with one choice, and `SetCores` at most once.
2. If all messages come through, and however late they do before the deadline, the choice is that of
   `elasticity.equilibrium.best_equilibrium` or `elasticity.incentives.cooperate`.
3. What was lost is asked for again. An agent that says nothing at all is left out; then the choice of
   the first round stands, or of the last one whose cost all have learnt.

Where this differs from the paper:

- Agents tell the pace that they could sustain at the source instead of their service time. It says
  the same, and whoever hears it need not know what part of the tasks comes to its neighbour.
- What is slowest is passed on as it was heard, not worked out again from a number of cores, so that
  all have exactly the same number and the bottleneck knows that it is one.
- Algorithm 2 applies the round before the last. Here it is the best round. With push-sum, where
  agents may disagree whether the last was better, the first who finds that it was not says so to all;
  and when the rounds run out, the last one that all went on from stands.
- An incentive never exceeds the price of a core, where the paper's ideal degree has no value.
- A step may leave the number of cores as it is, if changing it costs more than it saves (`inertia`).
"""
