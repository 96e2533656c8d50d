"""`australis sim`: run the protocols in a simulated world, and look for broken promises."""

from __future__ import annotations

import click

from australis.cli.seeds import seed_command
from australis.cli.sim_hotspots import hotspots


@click.group()
def sim() -> None:
    """Run protocols in a simulated world, reproducibly from a seed."""


sim.add_command(hotspots)
for name, about, promises, variant in (
    (
        "dpc",
        "Replicas, failures and corrections: DPC under seeded faults.",
        "Every seed stands for a diagram, its replicas, its settings and a schedule of faults. While"
        " it runs, checkers watch every promise: no stable tuple is lost or undone, logs are equal,"
        " tentative tuples are corrected, delays are bounded.",
        "gaps",
    ),
    (
        "movement",
        "Components that move from node to node under seeded faults.",
        "Every seed stands for a diagram, nodes, moves and faults in all six phases: crashes, loss,"
        " repetition, cuts. Clients must get every tuple once and in order, no component may be"
        " lost, and in the end each has one owner.",
        "DropsEarly",
    ),
    (
        "ants",
        "Queries that ants place, and place again, under seeded faults.",
        "Every seed stands for a network, queries that come, change and go, and faults: crashes of"
        " cells, cuts, loss of ants. No server may be used beyond its bound, and when everything has"
        " healed each query must run as its leader says, all of it and once, or not at all.",
        "SaysYes",
    ),
    (
        "elasticity",
        "Agents that choose the cores of their modules, under seeded faults.",
        "Every seed stands for a flow graph, prices, loads that change, and faults: crashes, pauses"
        " and cuts, messages that are lost, late or doubled, clocks that differ. Every control step"
        " must end by its deadline and within the limits of each module; if all hear each other"
        " they must choose the centralized optimum of what they know, with as many messages as the"
        " paper says.",
        "RoundsDown",
    ),
    (
        "contracts",
        "Participants that move load under contracts, under seeded faults.",
        "Every seed stands for participants, their tasks, costs and contracts, changes of all of"
        " these, and faults: crashes, cuts, messages that are lost, doubled or late. Every task must"
        " run, once when all is quiet; both sides must book the same for a movement, within the"
        " price of the contract; movements must come to an end when nothing changes.",
        "BooksTwice",
    ),
    (
        "ring",
        "Peers of a ring that come, go and look names up, under seeded faults.",
        "Every seed stands for peers, what they register and look up, joins and departures, and"
        " faults: crashes, cuts, messages that are lost, doubled or late. No lookup may take longer"
        " than its limit; when everything has healed each finds the responsible peer, each entry is"
        " found, and neighbours and fingers are those of the peers that are there.",
        "NamesItself",
    ),
    (
        "register",
        "Values that nodes agree on without a leader, under seeded faults.",
        "Every seed stands for keepers, proposers, edits and reads of registers, keepers that are"
        " replaced, and faults: crashes, lost disks, cuts, messages that are lost, doubled or late."
        " The values of a register must form one history, in which every edit that was told as"
        " decided stands once and in time; when everything has healed all is decided.",
        "MinorityDecides",
    ),
):
    sim.add_command(seed_command(name, about, promises, variant))
