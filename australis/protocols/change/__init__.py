"""Changes of a deployment while it runs: add, remove and move replicas, with no pause.

One mechanism: a new replica joins, copies a state, catches up, is read, and the old one goes. Equal
logs make that harmless, since two replicas of a fragment write the same bytes; only what is
forgotten needs agreement. So each phase is an edit of the application's register
(`deployment.deployed`, `protocols.register`), and any node can go on with a change that another one
has begun.

    begin    the new members are JOINING: upstream keeps its logs for them
    copy     each asks a peer for a state once all its inputs are kept (`protocols.dpc`)
    switch   they are FULL and the old ones LEAVING: consumers read the old ones last
    empty    until nobody reads the old ones, and nobody needs what their logs alone have
    finish   the old ones are removed

Before `switch` a change can be cancelled; after it there is no way back. The node that carries a
change out is its steward. Each node has a `StewardMachine`, which also spreads new versions: it
tells all nodes at once, and now and then one of them by chance what it knows.

Promises, which `sim dpc --preset dynamic` checks beside those of DPC:

- All deployments of an application form one history, and no machine goes back to an older one.
- There is never a moment in which no full member has a fragment's state.
- A member that is read, or whose log somebody needs, is not removed.
- Without failures clients notice nothing: nothing tentative, nothing late.
- A change ends, done or cancelled, once a majority of keepers and the nodes it needs are there.

In synergy (3.2) a component has one instance, and its source and its target agree in six phases on
handing it over. Here the replica set changes, and the register decides.
"""
