"""The exchange of checkpoints between replicas: files served to one, fetched from another."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from australis.kernel.errors import Damaged
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import InstallSnapshot, SnapshotFailed, SnapshotInstalled
from australis.protocols.dpc.topology import Topology
from australis.runtime.files import make_directory
from australis.runtime.node import snapshots, wire
from australis.runtime.node.driver import Driver
from australis.runtime.node.engine import LiveEngine
from australis.runtime.node.events import WARNING, Tell
from australis.runtime.node.links import Mismatch
from australis.runtime.node.transport import NETWORK_ERRORS, NodeConnection, sentence_of

SNAPSHOT_TIMEOUT_S = 60.0


class SnapshotExchange:
    """Serves checkpoints of this node's replicas, and installs those of other nodes."""

    def __init__(
        self,
        node: str,
        directory: Path,
        topology: Topology,
        places: Mapping[str, str],
        connect: Callable[[str], NodeConnection],
        driver: Driver,
        tell: Tell,
        on_error: Callable[[BaseException], None],
        on_damaged: Callable[[str, str, Damaged], None] = lambda machine, stream, error: None,
        qualified: Callable[[str], str] = lambda machine: machine,
    ) -> None:
        """The exchange of an application's replicas, whose names others know as `qualified`."""
        self.engines: dict[str, LiveEngine] = {}
        """The engines, by replica."""
        self._node = node
        self._directory = directory
        self.topology = topology
        self._places = places
        self._connect = connect
        self._driver = driver
        self._tell = tell
        self._on_error = on_error
        self._on_damaged = on_damaged
        self._qualified = qualified
        self._copies = itertools.count()

    def clear(self) -> None:
        """Remove the files that an earlier incarnation left."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def serve(self, node: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, in a directory, for a node with a replica of it."""
        config = next((r for r in self.topology.replicas if r.name == machine), None)
        if config is None or machine not in self.engines:
            raise wire.WireError(f"'{wire.short(machine)}' does not run on '{self._node}'")
        if stream not in (output.stream for output in config.outputs):
            raise wire.WireError(f"'{machine}' has no output '{wire.short(stream)}'")
        helped = {r.name for r in self.topology.replicas if machine in r.peers}
        if node is not None and node not in {self._places[peer] for peer in helped}:
            raise wire.WireError(f"'{node}' may not have the state of '{machine}'")
        copy = self._directory / f"{next(self._copies)}"
        make_directory(copy)
        try:
            return self.engines[machine].lanes.snapshot(stream, copy), copy
        except BaseException as error:
            if isinstance(error, Damaged):  # without that bucket the next one succeeds
                self._on_damaged(machine, stream, error)
            shutil.rmtree(copy, ignore_errors=True)
            raise

    def install(self, machine: str, effect: InstallSnapshot) -> None:
        """Fetch a replica's checkpoint on a separate thread, then continue from it."""
        entry, about = self._driver.entry, self._driver.about()
        threading.Thread(
            target=self._fetch,
            args=(machine, effect, entry, about),
            name=f"snapshot of {effect.stream}",
            daemon=True,
        ).start()

    def _fetch(
        self, machine: str, effect: InstallSnapshot, entry: str, about: dict[str, str]
    ) -> None:
        stream, peer = effect.stream, effect.state
        told: dict[str, Any] = {**about, "stream": stream, "peer": peer}

        def report(event: Event) -> None:
            self._driver.post(machine, event, entry)

        try:
            files = self._directory / f"of {stream}"
            with self._connect(self._places[peer]) as client:
                upto = snapshots.fetch(
                    client, self._qualified(peer), stream, files, SNAPSHOT_TIMEOUT_S
                )
            lanes = self.engines[machine].lanes
            trimmed = lanes.install(stream, upto, files, effect.ahead_us)
            fits_after = self.engines[machine].fits_after(stream)
            digest = lanes.log(stream).digest(upto)
            report(SnapshotInstalled(stream, upto, trimmed, digest, fits_after))
            self._tell("snapshot_installed", upto=upto, trimmed_upto=trimmed, **told)
        except (*NETWORK_ERRORS, wire.WireError, Mismatch) as error:
            report(SnapshotFailed(stream))  # it asks again
            self._tell("snapshot_failed", level=WARNING, why=sentence_of(error), **told)
        except BaseException as error:
            self._on_error(error)
