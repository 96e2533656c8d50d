"""The sources of a node: their proxies, one of two where there is a standby, and witnesses."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from msgspec.structs import replace

from australis.deployment.cluster import machine_name
from australis.diagram.model import Source
from australis.kernel.errors import Damaged, UserError, unknown_name
from australis.kernel.machine import Event
from australis.node.hosts import SourceHost, SourceMemberHost, WitnessHost
from australis.node.ports import NodePort
from australis.protocols.dpc.effects import RestoredLog, Started
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.source_pair import SaveStanding, SourceMember, SourceWitness
from australis.runtime.files import FileDisk
from australis.runtime.logs import SharedLog
from australis.runtime.node import status
from australis.runtime.node.context import NodeContext
from australis.runtime.node.damaged import damaged_source
from australis.runtime.node.feed import SourceFeed
from australis.runtime.node.paired import (
    STANDING,
    WITNESS,
    PairedSource,
    read_standing,
    write_standing,
)
from australis.streams.buckets import END_OF_STREAM_US

MAX_ROWS_AHEAD = 2_000_000
"""The largest number of tuples by which a source read at full speed is ahead of the node's
lanes."""
LIVE = ("tcp", "push")
"""The kinds of sources whose tuples are live; others are replayed, from any time."""
Unread = Callable[[str, SharedLog], int]
"""The number of tuples of a source that the slowest lane of the node has not processed."""


class LocalSources:
    """The sources whose proxies run on a node."""

    def __init__(self, context: NodeContext, port: NodePort, unread: Unread) -> None:
        self._node = context
        self._port = port
        self._unread = unread
        self._disks: list[FileDisk] = []
        self._began: tuple[int, int] | None = None
        """When the cluster began on this machine, for sources that pace themselves by that, and in
        its streams."""
        self._max_connections = 0
        self.alone: dict[str, SourceFeed] = {}
        """The sources with one proxy."""
        self.pairs: dict[str, PairedSource] = {}
        """The sources with two proxies that have one of them here."""

    @property
    def names(self) -> list[str]:
        """The sources whose proxies run here."""
        return self._node.cluster.sources_on(self._node.name)

    @property
    def feeds(self) -> dict[str, SourceFeed]:
        """The sources that are read here now, those with a standby included."""
        led = {name: pair.feed for name, pair in self.pairs.items() if pair.feed is not None}
        return led | self.alone

    @property
    def logs(self) -> dict[str, SharedLog]:
        """The logs of the sources."""
        return {stream: proxy.log(stream) for stream, proxy in (self.alone | self.pairs).items()}

    # --- opening ----------------------------------------------------------------------------

    def open(
        self, incarnation: int, began_us: int | None, max_connections: int
    ) -> dict[str, Event]:
        """Open the machines of sources and witnesses; returns the first event of each."""
        self._began = None if began_us is None else (began_us, self._node.epoch_us)
        self._max_connections = max_connections
        first: dict[str, Event] = {}
        for stream in self.names:
            machine, restored = self._open(stream)
            first[machine] = Started(incarnation, (restored,))
        for witness in self._open_witnesses():
            first[witness] = Started(incarnation)
        return first

    def _open(self, stream: str) -> tuple[str, RestoredLog]:
        """Open a source's machine; returns its name and what its log holds."""
        node = self._node
        source = next(s for s in node.diagram.sources if s.name == stream)
        paired = stream in node.topology.pairs
        directory = node.state.source(stream, *([STANDING] if paired else []))
        if not paired and (directory / STANDING).exists():
            self._refuse_stale(stream)
        log = self._open_log(source)
        if log.boundary_us < node.diagram.buckets.end(node.base_bucket):
            base = node.base_bucket
            # A log that begins anew is told from an earlier one by its digest, from the first on;
            # a standby's is a copy, and begins with that of the one that leads.
            log.restart_at(base, digest=(base, 0 if paired else secrets.randbits(62)))
        return self._open_member(source, log) if paired else self._open_alone(source, log)

    def _open_log(self, source: Source) -> SharedLog:
        node = self._node
        disk = FileDisk(node.layout.source_log(source.name))
        self._disks.append(disk)
        size = node.segment_bytes(source.name)
        try:
            return SharedLog(disk, source.schema, node.diagram.buckets, segment_bytes=size)
        except Damaged as error:
            node.damages.found(source.name, error, disk.directory)
            raise damaged_source(source.name, error, disk.directory) from error

    def _refuse_stale(self, stream: str) -> NoReturn:
        """Refuse the log of a source that had a standby, which may have gone on without this node."""
        raise UserError(
            "had a standby, which may have gone on with its log: keep it, or begin anew with"
            " another 'state'",
            name=stream,
            place=self._node.cluster.place_of("sources", stream),
        )

    def _open_alone(self, source: Source, log: SharedLog) -> tuple[str, RestoredLog]:
        node, stream = self._node, source.name
        machine = SourceMachine(stream, node.topology.sources[stream], node.options)
        feed = self._open_feed(source, log, machine)
        node.machines.open(SourceHost(machine, self._port, feed))
        self.alone[stream] = feed
        end = feed.closed
        return stream, RestoredLog(
            *(stream, end, log.trimmed_upto, end),
            digest=log.digest(end),
            digests=log.recent_digests(log.truncated_to, end),
            complete=log.boundary_us >= END_OF_STREAM_US,
        )

    def _open_feed(
        self, source: Source, log: SharedLog, machine: SourceMachine, member: str = ""
    ) -> SourceFeed:
        node, stream = self._node, source.name
        return SourceFeed(
            source,
            log,
            machine,
            node.driver.post,
            node.failed,
            node.clock.now,
            state=node.layout.source(stream),
            base=node.base,
            began=self._began,
            room=lambda: self._has_room(stream, log, machine),
            member=member,
            tell=node.tell,
            max_connections=self._max_connections,
        )

    def _open_member(self, source: Source, log: SharedLog) -> tuple[str, RestoredLog]:
        node, stream = self._node, source.name
        pair = node.topology.pairs[stream]
        name = machine_name(stream, node.name)
        (other,) = (member for member in pair.members if member != name)
        state = node.layout.source(stream)
        max_bytes = node.options.bounds_of(stream).max_bytes
        port = PairedSource(
            *(name, source, log, state, node.driver.post, node.tell, node.failed),
            max_bytes,
        )
        machine = SourceMember(
            *(name, stream, other, pair.witness, node.topology.sources[stream], node.options),
            first=name == pair.members[0],
            standing=port.standing,
            rows=port.rows,
        )
        node.machines.open(SourceMemberHost(machine, self._port, port))
        self.pairs[stream] = port
        port.start(lambda: self._open_feed(source, log, machine, name))
        return name, replace(port.restored, fits_after=log.fits_after(max_bytes))

    def _open_witnesses(self) -> Iterator[str]:
        """Open the witnesses of sources that run here; what they decided is on the disk."""
        node = self._node
        for stream, pair in node.topology.pairs.items():
            if node.cluster.witnesses[pair.witness] != node.name:
                continue
            path = node.state.source(stream, WITNESS) / WITNESS
            machine = SourceWitness(stream, read_standing(path).view)
            save = partial(_save_view, path)
            node.machines.open(WitnessHost(pair.witness, machine, self._port, save))
            yield pair.witness

    def _has_room(self, stream: str, log: SharedLog, machine: SourceMachine) -> bool:
        """Whether a source at full speed may go on."""
        if self._node.settings.bounded:
            return self._unread(stream, log) < MAX_ROWS_AHEAD
        return stream not in self.pairs or not self.pairs[stream].is_ahead(machine.end)

    # --- what is asked of them ----------------------------------------------------------------

    def push(self, source: str, rows: Any) -> None:
        """Give rows to a push source; they are durable when this returns."""
        running, name = self.feeds, self._node.name
        if source in self.pairs and source not in running:
            leader = self._member(source).view.leader.rpartition("@")[2] or "no node yet"
            sentence = f"does not take rows on '{name}' now: it is led by {leader}"
            raise UserError(sentence, name=source)
        feed = running.get(source)
        if feed is None or feed.proxy.push_handle is None:
            known = [one for one, its in running.items() if its.proxy.push_handle is not None]
            sentence = f"is not a push source on '{name}'"
            raise unknown_name(source, known, sentence, heading="push sources")
        feed.proxy.push_handle.push(rows)

    def status(self) -> dict[str, dict[str, Any]]:
        """The status of each source."""
        node, now_us = self._node, self._node.clock.now()
        alone = {
            stream: status.of_source(feed, node.layout.source_log(stream), now_us)
            | {"damaged": node.damages.status(stream)}
            for stream, feed in self.alone.items()
        }
        found = alone | {stream: self._status_of_pair(stream, now_us) for stream in self.pairs}
        kinds = {source.name: source.kind for source in node.diagram.sources}
        return {stream: one | {"live": kinds[stream] in LIVE} for stream, one in found.items()}

    def _status_of_pair(self, stream: str, now_us: int) -> dict[str, Any]:
        machine = self._member(stream)
        # Only the one that leads hears from consumers.
        heard = machine.leads
        return self.pairs[stream].status(machine) | {
            "log_bytes": status.log_bytes(self._node.layout.source_log(stream)),
            "log_waits_for": machine.waits_for if heard else [],
            "consumers": status.of_consumers(machine.subscribers, now_us) if heard else {},
        }

    def _member(self, stream: str) -> SourceMember:
        machine = self._node.machines.hosts[self.pairs[stream].name].machine
        assert isinstance(machine, SourceMember)
        return machine

    # --- running ----------------------------------------------------------------------------

    def start(self) -> None:
        """Read the sources; those with a standby are read once they lead."""
        for feed in self.alone.values():
            feed.start()

    def stops(self) -> list[Callable[[], None]]:
        """What stops the sources, each by itself."""
        return [feed.stop for feed in self.alone.values()] + [p.stop for p in self.pairs.values()]

    def close(self) -> None:
        """Close the files of the logs."""
        for disk in self._disks:
            disk.close()


def _save_view(path: Path, effect: SaveStanding) -> None:
    write_standing(path, effect.standing)
