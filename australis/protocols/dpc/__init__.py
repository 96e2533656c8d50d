"""Delay, Process and Correct: fault tolerance for replicated diagrams (thesis ch. 4, 5).

**What it is for.** Every fragment runs on several nodes. While one replica of each fragment is
up and connected, consumers do not notice a failure. When an input is unavailable at all its
replicas, results continue within the accepted delay X, marked tentative; they are corrected
once the input is back.

**The idea.** A stream is a stable log plus a tentative overlay. All replicas write the same
log, bucket by bucket; nothing tentative is ever in it. The output of a tentative lane lies
beyond the log's end and is superseded, bucket by bucket, as the log grows. So replay,
switching, correction and recovery are one operation: continue after a bucket number.

**The machines.** `ReplicaMachine` (replica) is a processing node, `SourceMachine` and
`ClientMachine` (proxies) are the two ends. A replica consists of

    monitor       which producers answer heartbeats                       figure 4-10
    clocks        how far a producer's clock is off, from round trips     (not in the thesis)
    switching     which replica to read an input from                     table 4.3
    inputs        one input: stable buckets, overlay, choice of replica   4.6, 4.7.4, 5.1.2
    outputs       one output: phase, lanes, release of buckets            4.2, 4.6.2, 5.1.3, app. A
    states        the phases and the triggers between them                figure 4-4
    subscribers   the consumers of an output, and what each is sent       4.7.2, 4.9, 5.1.2
    missing       what tentative buckets rest on                        5.8.3
    digests       whether replicas' logs are equal
    loss          states that no replica has any more                     4.8, 5.8.5
    stagger       replicas that stabilise in turn                         figure 4-12

A source may have two proxies on two nodes (`source_pair`), so that losing a node for good loses
nothing that was acknowledged (4.10.2 names the hot standby and leaves it open).

And `topology` derives all configurations from a diagram. `messages` holds the messages between
nodes, `effects` the effects that a machine asks of its driver and the events it gets back.

**How to drive it.** Give a machine `Started` with what is on its disk, then every message,
timer and completion as an event; carry out the effects in order before the next event.
The driver's obligations, which the hosts of the package `node` meet given the ports of a world:

1. `RunStable`: process exactly the stable buckets named, append to the log durably only
   what lies after `keep_after`, then report `StableDone`. One at a time per output.
2. `ForkLane` copies the lane's *committed* state; `RunTentative` runs on the copy only.
3. `Checkpointed` is reported when the state is durable, together with its bucket.
4. `SendLog` is read from the log when it is executed; what is not durable is not sent.
5. `Started.incarnation` is higher in every incarnation of a node.
6. A source's tuples are durable before `BucketClosed` is reported.
7. What waits for a tentative lane is done together where a micro-batch has a fixed cost: after a
   failure during corrections a new lane repeats all that the dropped one had said, at once.
8. `StableDone` and `BucketClosed` tell the log's digests up to the new buckets that hold tuples.
9. `SkipAhead` is reported by `SkippedAhead`; whenever there is a crash, the log never gets a bucket
   up to `trimmed_upto` from the lane that began empty.

**Promises**, each with a checker in `sim/dpc/checkers`: no stable tuple is lost, duplicated,
reordered or undone at a consumer; replicas' logs are equal, and equal to a run without
faults; every tentative tuple is corrected; new tuples wait at most X more than without
failure while a path of non-blocking operators works; an outage shorter than X shows nothing
tentative; buffers are bounded, and logs if they have bounds; inputs that keep failing do not stop
progress; replicas whose logs differ all the same announce it within a few heartbeats and stop,
without a false alarm; what all replicas of a fragment have lost is skipped by its consumers, or it
is announced that it is lost.

**Where it deviates from the thesis**

- *Heartbeats are subscriptions.* Each one carries, for every stream, what the consumer wants,
  how far it got and what it has made durable. The thesis assumes reliable connections; here any
  message may be lost, repeated or late, and the next heartbeat repairs it.
- *Deadlines are end to end.* A bucket carries the time it entered the system, and each node
  leaves time for the hops ahead, so that X holds at any depth; the thesis' delay at each
  SUnion (`Deadline.PER_NODE`) adds up to k times D (5.4.3 leaves this to future work).
- *Each result may have its own X*, or none, so that it is never tentative. An output is released
  as early as the most urgent of the results behind it needs.
- *An output has failed when it can have no tuple* (appendix A): a stream is blocked when its
  operator needs an input that is blocked, or has no other input. Figure A-1 goes by paths: it
  says FAILURE too where a union behind a join still has its other input.
- *Clocks need not be synchronised.* Each node converts the entry times that it receives into its
  own clock, by an offset that it estimates from heartbeats. The sources' own clocks decide when
  their buckets close: one that is behind makes those that it is merged with wait.
- *No checkpoint is restored to reconcile.* The stable lane was never touched by tentative
  tuples; it goes on. It need not wait until all inputs are back either (5.3).
- *Tentative tuples are heard from two replicas* where there are two, so that losing one of
  them on the verge of the deadline costs no time. The first one to do so counts. A hedged
  reader does the same with logs, where 4.11.2 has one replica send them.
- *The head of a log is read as tentative* while a long replay runs (P3), or while an input's
  buffer is full; so a replica that is stable again serves both, and buffers stay bounded
  however long another input is missing.
- *A stable replica that lags or sends nothing* counts as stabilising in table 4.3 (one that was
  paused says that it is stable until it notices), and one that stabilises with a log that ends
  before what the consumer has as failed, while another has more.
- *An output whose inputs are back is stable again once it has caught up*, so that no consumer
  follows a slow node that says it is stable.
- *Once tentative, a bucket goes before its deadline* by the time in which a consumer notices a
  failure: a node that delays every bucket to the last moment cannot be replaced in time.
- *With bounded logs* a node that waits for its turn goes on all the same once its input is full, and
  a checkpoint is due after so many buckets too: full logs upstream must not wait for it for ever.
- *Tentative buckets say what is missing in them*: which buckets of which original sources, merged
  over hops and over what the state of operators reaches back to (precision is future work in 5.8.3).
- *Replicas compare their logs*, and consumers what they have received with what each producer
  has. The thesis assumes that operators are deterministic. Where logs differ, those replicas
  stop that have no majority of equal logs, and report FAILURE.
- *Promises between replicas are leases* that are renewed (4.7.3 does not say what happens
  when the other dies).
- *A node that has its turn suspends new tuples only when no consumer counts on it.* In 4.7.3 it
  does so at once, and consumers learn of it later, or have no other replica within reach.
  Its turn ends when its tentative output is corrected; it stays in STABILIZATION until it has
  caught up with new tuples as well, and leaves them to the other replicas until then.
- *A node without its disk gets the log too*, not only a replica's state: consumers that were
  away may need it. A node that was away until upstream logs had forgotten what it needs (it
  lost its disk, and got an older state back) asks a replica for a newer state.
- *All replicas may lose their states* (4.8 excludes it, 5.8.5 buffers for it). Once all have said so,
  a convergent-capable output begins with an empty state behind what logs have forgotten, all
  replicas at one bucket, and says nothing until that has converged; consumers skip. Any other output
  announces that it cannot go on. A replica that does not answer is waited for.
- *Undo/redo* (appendix B) is not here; it exists for comparison in `research.thesis_dpc.reconcile` only.
- *Bounded logs* (4.9.4). A log that has reached its bounds (`LogBounds`) is full: its lane waits until
  consumers have acknowledged more, in the end the sources do, and tuples that nobody can keep
  before them are lost. With `WhenFull.SKIP` a full log first lets go of the consumers that have not been heard for
  a while. It exceeds its bounds by one release at most.
- *Consumers have leases.* A log no longer waits for a consumer that is silent for longer than its
  lease. A client that comes back is told what is gone (`Skipped`), a replica takes the state of
  another one; so logs wait for a fragment all of whose replicas are silent, whatever the leases. A
  lease counts by the producer's clock, and begins anew when the producer restarts: the time for which
  it was down does not count, and what had lapsed is kept again for as long as a lease.
- *With `keep_log`* logs of convergent-capable fragments forget old
  buckets whether or not they are acknowledged; who needed them skips ahead, begins with an
  empty state and publishes again once that has converged, and the client is told what is
  gone.
- *Not here:* nodes do not join or leave.
"""
