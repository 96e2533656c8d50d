"""Hot spots inside one participant: found and relieved with nobody in charge (synergy 3).

Every peer offers some operators and registers its load under each of them in the ring
(`protocols.ring`). Whoever is responsible for an operator sees the loads of all that offer it. If
the most loaded one is overloaded (`criteria`: above h, now and over the last t minutes) and
another has less to do by more than l, it is told to let a component of that operator go there;
the component moves as `protocols.movement` says.

A peer tells its load only when it leaves its level (`levels`); otherwise the ring's keep-alive
does, once in a while. Loads are those of the scarcest of several resources (`loads`).

Against moving too much: one component of a peer moves at a time and further decisions are
ignored meanwhile and for a while after; none goes back to where it came from unless both the
current and the average load are lower there. If all that offer an operator are equally loaded,
moving does not help: placement is asked for one more.
"""
