"""A ring of peers that finds who is responsible for a name: a distributed hash table.

Peers and names have a place on a circle (SHA-1); the first peer at or behind a place is
responsible for it. A peer knows the one before it, some behind it, and fingers across the
circle, so that a lookup takes about half of log2(n) hops. It serves whatever has to be found
without anybody in charge: which peers offer an operator, which streams and diagrams there are.

    machine = RingMachine("p1", rng)
    effects = machine.handle(Started(1, contacts=("p0",)), now)
    effects = machine.handle(Registered("Filter", b"..."), now)
    effects = machine.handle(Fetched("tag", "Filter"), now)   # answered by TellKept

Entries are soft: their owner registers them again every keep-alive, and one that is not is
forgotten after two and a half. The responsible peer gives copies to the next two; whoever takes
its place has them. Should all three fail at once, the next keep-alive brings them back.

What it promises once messages get through and nobody comes or goes for a while: every lookup
finds the responsible peer; entries of peers that are there can be fetched; two rings that were
one before a partition are one again.
"""
