"""Scenarios: a diagram on nodes, what fails when, and what its client must see all the same.

A scenario is a file (`text.load`) that runs unchanged in two worlds, which both end in a
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

Times count from the moment when all replicas are stable. A fault is one of `kill`, `pause`,
`lose_disk` (killed, and its disk is empty when it starts again) and `cut`, of a node or of
several at once; `for` says how long it lasts, `times` and `every` repeat it. A `cut` is `from`
another node or from the `client`; with `one_way: true` the first no longer hears the other, but
the other way messages get through.

What can be expected:

- `stable: equal`: the client's stable tuples are those that one computation over all tuples
  gives, in the same order, none lost, none twice;
- `tentative: none` or `some`: whether it was given tentative tuples;
- `corrected: all`: none of them is left, and every UNDO was followed by its REC_DONE;
- `silence`: never longer than this it heard of nothing new, stable or tentative;
- `within`: so long after the last fault it had everything, for good.

Both worlds get the rows of the same generator, from the moment the run begins. In the real one
the scenario's clock stands still while a killed node is started again, since that takes no time
in the other; but it takes its time to notice things, so a scenario should leave it some.
"""
