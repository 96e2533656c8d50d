"""Moving a component from one node to another: replicate and switch, in six phases.

Every replica of a component writes the same log, so a move needs no pause: a second replica starts
at the target from a snapshot, catches up from its upstream logs, and readers continue there after
the last id they have. This package orders these steps and tolerates failures during them; it does
not know why a component moves, what a snapshot contains, or how logs are read.

    source                       target                      readers
    Decision: write Began
    TakeSnapshot
    Request ───────────────────▶ write Guest
                                 InstallReplica, catches up
            ◀─────────────────── Ready(position)
    write Told, LetGo
    Switch ────────────────────────────────────────────────▶ Resubscribe (durable)
            ◀──────────────────────────────────────────────── Switched(last id)
    write Handing
    Handover ──────────────────▶ write Owned
            ◀─────────────────── Answered
    write Gone, DropReplica

Rules the protocol relies on:

1. Until `Handing` is written the source alone can cancel the move; from then on only the target's
   answer ends it (or the target's permanent loss). The source runs its replica until the target
   has confirmed that it owns the component.
2. A target to which the component has not been handed over never keeps it: it asks the source, and
   the source answers.
3. Every announcement of a component's host has a higher epoch than the one before; readers follow
   the highest. A node that no longer runs a component knows its host.
4. The source does not acknowledge tuples after the snapshot to its upstream logs until these know
   the replica as a reader, and the snapshot contains the part of the log that readers lack.
5. While a component moves its log accepts no new readers, at the source or the target: the snapshot
   lists them all, and each log is kept for all of them.

In the paper (synergy 3.2) the upstream is told to send to the target, and its last sequence number
ends the move; here the readers are told to switch, and their last ids end it.
"""
