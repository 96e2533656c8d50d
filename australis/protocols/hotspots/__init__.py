"""Hot spots inside one participant, detected and relieved without a coordinator (synergy 3).

Every peer offers some operators and registers its load under each of them in the ring
(`protocols.ring`). The peer responsible for an operator sees the loads of all peers that offer it.
If the most loaded one is overloaded (`criteria`: above h, now and over the last t minutes) and
another peer has a load lower by more than l, the former is told to move a component of that
operator to the latter; `protocols.movement` carries the move out.

A peer announces its load when the load leaves its level (`levels`), and otherwise with the ring's
keep-alive. A load is that of the scarcest of several resources (`loads`).

To limit movement, one component of a peer moves at a time, and further decisions are ignored during
a move and for `rest_us` after it; no component returns to the peer it came from unless both the
current and the average load are lower there. If all peers that offer an operator are equally
loaded, moving does not help: placement is asked for another peer.
"""
