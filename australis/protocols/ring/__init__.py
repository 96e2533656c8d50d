"""A ring of peers that finds the peer responsible for a name: a distributed hash table.

Peers and names have a place on a circle (SHA-1); the first peer at or after a place is responsible
for it. A peer knows its predecessor, its next successors, and fingers across the circle, so that a
lookup takes about half of log2(n) hops. The ring is a directory without a central server: it tells
which peers offer an operator and which streams and diagrams exist.

    machine = RingMachine("p1", rng)
    effects = machine.handle(Started(1, contacts=("p0",)), now)
    effects = machine.handle(Registered("Filter", b"..."), now)
    effects = machine.handle(Fetched("tag", "Filter"), now)   # answered by TellKept

Entries are soft state: their owner registers them again at every keep-alive, and an entry expires
after two and a half intervals without one. The responsible peer copies its entries to its next two
successors, one of which takes its place when it fails. If all three fail at once, the next
keep-alive restores the entries.

Guarantees once messages arrive and the membership has been stable for a while: every lookup finds
the responsible peer; entries of live peers can be fetched; two rings that a partition has separated
are one ring again.
"""
