"""Scenarios: a diagram on nodes, a schedule of faults, and what its client must observe.

A scenario is a file (`scenario_file.load`) that runs unchanged in two worlds, which both end in a
`Verdict`:

- `simulated.run`: the protocol's machines in the simulated world, with all its checkers;
- `real.run`: real processes on this machine, killed, paused and cut off.

    scenario: source_cut_long
    says: A source out of reach for longer than max_delay makes results tentative for a while.
    diagram: diagrams/two_sites.yaml    # or the diagram itself
    replicas: {counts: [a, b]}          # the nodes of each fragment
    sources: {site0: e0, site1: e1}     # the node of each source
    max_delay: 4 s
    lasts: 12 s
    faults:
      - {cut: [a, b], from: e1, at: 1 s, for: 9 s}
    expect: {stable: equal, tentative: some, corrected: all, within: 30 s}

`policies`, `results`, `hop` and `heartbeat` are as in a cluster file, `hedge: 2` makes the client follow two
replicas at once, and `reads` names its stream where the diagram has several results.

Times count from the moment when all replicas are stable. A fault is one of `kill`, `pause`,
`lose_disk` (killed, and its disk is empty when it starts again), `cut` and `slow` (every message
takes longer, `by: 300 ms`), of a node or of several at once; `for` is its duration, `times` and
`every` repeat it. A `cut` is `from` another node or from the `client`, a `slow` link from another
node; with `one_way: true` only messages to the first node are touched.

What can be expected:

- `stable: equal`: the client's stable tuples are those that one computation over all tuples gives,
  in the same order, none lost, none twice;
- `tentative: none` or `some`: whether it was given tentative tuples;
- `tentative_at_most`: how many tuples were tentative when it first heard of them;
- `corrected: all`: none of them is left, and every UNDO was followed by its REC_DONE;
- `silence`: the client was never without a new tuple, stable or tentative, for longer than this;
- `within`: at this time after the last fault the client had everything, for good.

Both worlds get the rows of the same generator, from the moment the run begins. In the real world
the scenario's clock stops while a killed node is started again, since a restart takes no time in
the simulated one; but detection takes longer in the real world, so a scenario should leave time for
it.
"""
