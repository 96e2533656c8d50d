"""Delay, Process and Correct: fault tolerance for replicated diagrams (thesis ch. 4, 5).

**What it is for.** Every fragment runs on several nodes. While a replica of each is up and
connected, a failure goes unnoticed. When an input is missing everywhere, results go on
within the accepted delay X, marked tentative; when it is back, they are corrected.

**The idea.** A stream is a stable log plus a tentative overlay. All replicas write the same
log, bucket by bucket; nothing tentative is ever in it. What a tentative lane says lies
beyond the log's end and is superseded, bucket by bucket, as the log grows. So replaying,
switching, correcting and recovering are all one thing: going on after a bucket number.

**The machines.** `ReplicaMachine` (replica) is a processing node, `SourceMachine` and
`ClientMachine` (proxies) are the two ends. A replica is put together from

    monitor       who answers heartbeats                                  figure 4-10
    switching     which replica to read an input from                     table 4.3
    inputs        one input: stable buckets, overlay, choice of replica   4.6, 4.7.4, 5.1.2
    outputs       one output: phase, lanes, release of buckets            4.2, 4.6.2, 5.1.3, app. A
    states        the phases and what leads from one to another           figure 4-4
    subscribers   who reads an output, and what each is to be sent        4.7.2, 4.9, 5.1.2
    stagger       replicas that stabilise in turn                         figure 4-12

and `topology` derives all configurations from a diagram. `messages` is what nodes say to
each other, `effects` what a machine asks of its world and hears back.

**How to drive it.** Give a machine `Started` with what is on its disk, then every message,
timer and completion as an event; carry out the effects in order before the next event.
The driver's obligations:

1. `RunStable`: process exactly the stable buckets named, append to the log durably only
   what lies after `keep_after`, then report `StableDone`. One at a time per output.
2. `ForkLane` copies the lane's *committed* state; `RunTentative` runs on the copy only.
3. `Checkpointed` is reported when the state is durable, together with its bucket.
4. `SendLog` is read from the log when it is carried out; what is not durable is not sent.
5. `Started.life` is higher in every life of a node.
6. A source's tuples are durable before `BucketClosed` is reported.

**Promises**, each with a checker in `sim/dpc/checkers`: no stable tuple is lost, duplicated,
reordered or undone at a consumer; replicas' logs are equal, and equal to a run without
faults; every tentative tuple is corrected; new tuples wait at most X more than without
failure while a path of non-blocking operators works; an outage shorter than X shows nothing
tentative; buffers are bounded; inputs that keep failing do not stop progress.

**Where it deviates from the thesis**

- *Heartbeats are subscriptions.* Each one says for every stream what the consumer wants, how
  far it got and what it has made durable. The thesis assumes reliable connections; here any
  message may be lost, repeated or late, and the next heartbeat mends it.
- *Deadlines are end to end.* A bucket carries the time it entered the system, and each node
  leaves time for the hops ahead, so that X holds at any depth; the thesis' delay at each
  SUnion (`Deadline.PER_NODE`) adds up to k times D (5.4.3 leaves this to future work).
- *No checkpoint is restored to reconcile.* The stable lane was never touched by tentative
  tuples; it goes on. It need not wait until all inputs are back either (5.3).
- *Tentative tuples are heard from two replicas* where there are two, so that losing one of
  them on the verge of the deadline costs no time. Whoever speaks first counts.
- *The head of a log is read as tentative* while a long replay runs (P3), or while an input's
  buffer is full; so a replica that is stable again serves both, and buffers stay bounded
  however long another input is missing.
- *A stable replica that lags or sends nothing* counts as stabilising in table 4.3 (one that was
  paused says that it is stable until it notices), and one that stabilises with a log that ends
  before what the consumer has as failed, while another has more.
- *An output whose inputs are back is stable again once it has caught up*, so that nobody
  follows a slow node that says it is stable.
- *Once tentative, a bucket goes before its deadline* by the time in which a consumer notices a
  failure: a node that delays every bucket to the last moment cannot be replaced in time.
- *With `max_log`* a node that waits for its turn goes on all the same once its input is full, and
  a checkpoint is due after so many buckets too: full logs upstream must not wait for it for ever.
- *Promises between replicas are leases* that are renewed (4.7.3 does not say what happens
  when the other dies).
- *A node that has its turn suspends new tuples only when no consumer counts on it.* In 4.7.3 it
  does so at once, and consumers learn of it later, or have no other replica within reach.
  Its turn ends when it has corrected what it had said; it stays in STABILIZATION until it has
  caught up with new tuples as well, and leaves them to the others until then.
- *A node without its disk gets the log too*, not only a replica's state: consumers that were
  away may need it. A node that was away until upstream logs had forgotten what it needs (it
  lost its disk, and got an older state back) asks a replica for a newer state.
- *Undo/redo* (appendix B) is not here; it exists for comparison in `experiments` only.
- *Bounded logs* (4.9.4): with `keep_log`, logs of convergent-capable fragments forget old
  buckets whether or not they are acknowledged; who needed them skips ahead, begins with an
  empty state and publishes again once that has converged, and the client is told what is
  gone (`Skipped`). With `max_log` a full log holds its lane back, and in the end the sources
  drop tuples. A deployment uses one of the two.
- *Not here:* leases on replica sets. A consumer that is silent for ever holds truncation back
  unless `keep_log` is set; nodes do not join or leave.
"""
