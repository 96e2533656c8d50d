"""A bucket that rots under a running machine: it is never sent, and the log lets go of it."""

from __future__ import annotations

from typing import Any

from node.test_conformance import BUCKETS, SCHEMA, batch
from streams.sim_disk import SimDisk
from streams.test_log import rotten

from australis.kernel.errors import Damaged
from australis.kernel.machine import Message
from australis.node.hosts import SourceHost
from australis.protocols.dpc.effects import (
    BucketClosed,
    LogDamaged,
    RestoredLog,
    SendHead,
    SendLog,
    Started,
    Truncate,
)
from australis.protocols.dpc.messages import StableData
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.proxies import SourceMachine
from australis.runtime.logs import SharedLog


class Node:
    """The node around the host of a source whose log has a damaged third bucket."""

    def __init__(self) -> None:
        whole, disk = SharedLog(SimDisk(), SCHEMA, BUCKETS), SimDisk()
        log = SharedLog(disk, SCHEMA, BUCKETS)
        for number in range(5):
            for one in (whole, log):
                one.append([(number, batch(number))], BUCKETS.end(number))
        (segment,) = [name for name in disk.names() if name.endswith(".seg")]
        at = sum(record.length for record in log._records[:2]) + 60
        self._log = SharedLog(rotten(disk, segment, at), SCHEMA, BUCKETS)
        self.sent: list[Message] = []
        self.damaged: list[Damaged] = []
        self.machine = SourceMachine("s", ("r",), DpcOptions())
        self.machine.handle(Started(1, (RestoredLog("s", 4, -1, 4),)), 0)
        node: Any = self
        self.host = SourceHost(self.machine, node, node)

    def log(self, stream: str) -> SharedLog:
        return self._log

    def limit(self, effect: Any) -> None: ...

    def shares_logs(self, machine: str) -> bool:
        return False

    def send(self, sender: str, to: str, message: Message) -> None:
        self.sent.append(message)

    def log_damaged(self, machine: str, stream: str, error: Damaged) -> None:
        self.damaged.append(error)


def test_what_lies_before_it_is_sent_and_it_is_told() -> None:
    node = Node()
    node.host.perform(SendLog("r", "s", -1, 4, undo=False, rec_done=False))
    (data,) = node.sent
    assert isinstance(data, StableData)
    assert (data.upto, [b.number for b in data.buckets]) == (1, [0, 1])
    (error,) = node.damaged
    assert (error.bucket, error.file, error.byte > 0) == (2, "000000000000.seg", True)
    node.host.perform(SendHead("r", "s", 2))
    node.host.perform(SendLog("r", "s", 1, 4, undo=False, rec_done=False))
    assert node.sent == [data], "nothing else"


def test_its_log_lets_go_of_it() -> None:
    node = Node()
    assert node.machine.handle(LogDamaged("s", 2), 0) == [Truncate("s", 2)]
    assert node.machine.handle(LogDamaged("s", 2), 0) == []
    node.machine.handle(BucketClosed("s", 4), 0)
    assert node.machine.trimmed_upto == 2
    node.host.perform(Truncate("s", 2))
    node.host.perform(SendLog("r", "s", 2, 4, undo=False, rec_done=False))
    assert [type(m) for m in node.sent] == [StableData]
