"""The check of a whole state directory that nobody uses: what is damaged, and what repairs it.

    nodes = find_nodes(state)
    findings = check(state, nodes)

`stored` finds what there is, `check` reads every byte of it and writes nothing, and `repair` does
what a finding says: it takes what another file of the same state gives back, or sets aside what
another node gives back when the damaged one starts.
"""

from australis.runtime.fsck.check import Checked, check
from australis.runtime.fsck.findings import Finding
from australis.runtime.fsck.stored import NodeState, StoredOutput, find_nodes, locked

__all__ = ["Checked", "Finding", "NodeState", "StoredOutput", "check", "find_nodes", "locked"]
