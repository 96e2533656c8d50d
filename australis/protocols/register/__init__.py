"""Registers: named values that several nodes agree on, one change at a time, without a leader.

A register holds bytes and a version. A change is an edit, a pure function of the value; edits of
one register form one history, in which each edit that was told as decided stands once and in an
order that agrees with real time. The protocol is CASPaxos: a proposer asks the keepers for the
newest value (`Prepare`), applies its edit, and has a majority accept the result (`Propose`). Every
node is a proposer; three or five nodes are keepers.

Promises, which `sim register` checks:

- A history has no forks: two edits never give the same version.
- A read or an edit sees every edit that was told as decided before it began.
- An edit is applied once, however often its messages are repeated. If its outcome cannot be learnt
  in time, it is told as unknown, never as refused.
- When a majority of keepers answers and proposers do not compete, edits are decided.

Deviations from CASPaxos: a record names the newest operation of each proposer, so that a proposer
that tries again knows whether its edit was applied. A refused edit is confirmed by a round of
acceptance, so that refusals are linearizable too. The set of keepers changes through a joint set,
in which a decision needs a majority of both; a keeper is known by its name and by the identity of
its disk, so that a keeper that has lost its disk has no vote until it is added again.
"""
