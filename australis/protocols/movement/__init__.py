"""Moving a component from one node to another: replicate and switch, in six phases.

Every replica of a component writes the same log, so a move needs no pause: a second replica
starts at the target from a snapshot, catches up from the logs before it, and readers go on there
after the last id they have. This package orders that and survives whatever happens meanwhile; it
knows nothing of why a component moves, what a snapshot is, or how logs are read.

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

Rules it rests on:

1. Until `Handing` is written the move can be called off by the source alone; from then on only
   the target's word ends it (or that the target is lost for good). The source runs its replica
   until the target has said that the component is its own.
2. A target that has not been handed the component never keeps it: it asks, and is told.
3. Every word about where to read has a higher epoch than the one before; readers take the highest.
   A node that does not run a component any more knows where it went.
4. The source does not acknowledge to the logs before it what lies behind the snapshot until they
   know the replica as a reader, and the snapshot has the part of the log that readers lack.
5. While a component moves its log takes no new readers, here or there: the snapshot has them
   all, and each log is kept for all of them.

In the paper (synergy 3.2) the upstream is told to send to the target and its last sequence
number ends the move; here the readers are told, and theirs does.
"""
