"""One node: the machines that run on it, composed, and still pure.

    machine   the node's machines: routes events to them and executes their effects
    hosts     the executors of the effects of a replica, a source or a client
    ports     what a world must supply: logs, an engine, a network, timers, applications
    roles     which messages a machine may send to which other

The simulated world (`sim.dpc.hosts`) and the real one (`runtime.node`) drive the same hosts; they
differ in the ports alone. Both run this loop:

    node = NodeMachine("a")
    node.open(ReplicaHost(machine, ports, engine))
    queue.append((machine.config.name, Started(incarnation, restored)))
    while True:
        name, event = next_event()              # a message, a timer, work that is done
        for effect in node.handle(name, event, clock.now()):
            trace(effect)                       # it is executed when the loop continues

`next_event` takes from one queue that the ports fill, in `runtime.node.driver` on one thread, in
`sim.world` in simulated time. A host may be opened at any time; its first event is `Started`.

What a driver owes:

1. Events are handled one at a time, and `handle` is exhausted before the next one. It carries out
   each effect by the host's ports after it has given it, in the order of the machine's list.
2. A port returns at once. What takes time is reported later as the event that the port's docstring
   names.
3. A message may be lost, repeated or late. A timer that is set again under its name replaces the
   earlier one.
4. Events for a machine that is not here any more may still come: they have no effects.
"""
