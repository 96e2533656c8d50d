"""Nodes of a cluster as processes of this machine, restarted when they die."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from australis.deployment.cluster import Cluster
from australis.kernel.errors import Stopped, UserError
from australis.runtime.admin import AdminClient
from australis.runtime.files import make_directory, stopping
from australis.runtime.node.events import FILE as EVENTS
from australis.runtime.processes import end, identity, named_in, number
from australis.runtime.state import StateDirectory

RESTART_DELAY_S = 0.5
"""The first delay before a node that died is restarted; it doubles with each restart."""
MAX_RESTART_DELAY_S = 10.0
"""The longest delay before a restart."""
HEALTHY_AFTER_S = 60.0
"""The uptime after which a node counts as healthy, which resets its restart delay."""
STOP_TIMEOUT_S = 25.0
"""The longest time that a supervisor takes to stop its nodes."""
HELLO_TIMEOUT_S = 0.5
USER_ERROR_EXIT_CODE = 2
"""The exit code of a command whose input is wrong, which a restart does not help.

A node that has worked with the same input is restarted nevertheless: something else must be wrong,
and the other nodes continue meanwhile."""

COMMAND = (sys.executable, "-m", "australis.cli.main")


class Say(Protocol):
    """Tells a person one line, or a program the same as an object."""

    def __call__(self, sentence: str, **about: object) -> None:
        """Tell what has happened."""
        ...


def pid_file(state: Path, node: str) -> Path:
    """The file that names a node's process."""
    return state / node / "pid"


def supervisor_file(state: Path) -> Path:
    """The file that names the supervisor's process."""
    return state / "up.pid"


def last_line(path: Path, since: int = 0) -> str:
    """The last line of a process's log after `since` bytes, without the command's name."""
    try:
        with path.open("rb") as file:
            file.seek(max(since, path.stat().st_size - (1 << 16)))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("australis: ").removeprefix("stopped: ") if said else ""


@dataclass
class _Kept:
    """A supervised node."""

    name: str
    log: Path
    pid_file: Path
    process: subprocess.Popen[bytes] | None = None
    logged: int = 0
    """The length of its log in bytes when it was started."""
    began_s: float = 0.0
    again_s: float = RESTART_DELAY_S
    due_s: float | None = 0.0
    """The time at which it is to be started; None while it runs."""
    answers: bool = False
    events_read: int = 0
    """The length of its events in bytes up to which they have been looked at."""
    failure: tuple[str, str] | None = None
    """The output on whose tuples an operator has failed, and the buckets."""
    gives_up: bool = False
    """Whether an operator has failed twice on the same buckets, so that no start will help."""
    worked: bool = False
    """Whether it ever answered for as long as it takes to be well, with its Spark if it needs one."""

    @property
    def spark_pid(self) -> Path:
        """It exists while a Spark that has started works for the node."""
        return StateDirectory(self.pid_file.parent).spark_pid

    @property
    def _events(self) -> Path:
        return self.pid_file.parent / EVENTS

    @property
    def events_size(self) -> int:
        """The length of its events in bytes."""
        return self._events.stat().st_size if self._events.exists() else 0

    def new_events(self) -> Iterator[dict[str, Any]]:
        """The events that it has written since they were last looked at."""
        size = self.events_size
        if not size:  # its state directory may have been deleted
            self.events_read = 0
        if size == self.events_read:
            return
        with self._events.open("rb") as file:
            since = self.events_read if size > self.events_read else 0
            file.seek(since)
            whole, newline, _ = file.read().rpartition(b"\n")
        self.events_read = since + len(whole + newline)
        yield from map(json.loads, whole.splitlines())

    @property
    def mine(self) -> bool:
        """Whether the process that was started here runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def runs(self) -> bool:
        """Whether the node runs, even as a process that this supervisor did not start."""
        return self.mine or named_in(self.pid_file) is not None

    @property
    def identity(self) -> str:
        """Its process; nothing if there is none."""
        if self.process is not None and self.mine:
            return identity(self.process.pid)
        return named_in(self.pid_file) or ""


class Supervisor:
    """Keeps the nodes of a cluster running; call `look` again and again."""

    def __init__(
        self,
        file: Path,
        cluster: Cluster,
        base: Path,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._file = file
        self._cluster = cluster
        self._say = say
        self._admin = AdminClient(cluster, base)
        state = base / cluster.state
        self._nodes = [
            _Kept(name, state / name / "log.txt", pid_file(state, name)) for name in cluster.nodes
        ]
        for node in self._nodes:
            node.events_read = node.events_size  # earlier ones were told before

    @property
    def ready(self) -> bool:
        """Whether all nodes answer."""
        return all(node.answers for node in self._nodes)

    def look(self) -> None:
        """Start nodes that are due, detect those that died, and report those that answer."""
        now = self._clock()
        for node in self._nodes:
            self._tell_events(node)
            if node.due_s is not None:
                if now >= node.due_s:
                    self._start(node, now)
            elif not node.runs:
                self._died(node, now)
            elif not node.answers and self._admin.says_hello(node.name, HELLO_TIMEOUT_S):
                node.answers = True
                self._tell_ready(node)
            elif node.answers and now - node.began_s > HEALTHY_AFTER_S and not node.worked:
                node.worked = not self._needs_spark(node.name) or node.spark_pid.exists()

    def _tell_events(self, node: _Kept) -> None:
        """Report what only a person can mend: replicas' logs that differ, and lost states."""
        for event in node.new_events():
            if event.get("event") == "state_lost":
                raise Stopped(f"node {node.name} cannot go on: {event['why']}")
            if event.get("event") == "state_awaited":
                self._say(f"{event['machine']}: {event['why']}", **_told(event))
            if event.get("event") == "operator_failed":
                self._failed(node, event)
            if event.get("event") != "replicas_differ":
                continue
            stops = "; it stops" if event["stops"] else ""
            self._say(
                f"{event['machine']} finds that {event['stream']} differs from {event['replica']}"
                f" (first in bucket {event['after'] + 1}..{event['bucket']}){stops}: see 'Replicas"
                " that differ' in docs/reference/observability.md",
                **_told(event),
            )

    def _failed(self, node: _Kept, event: dict[str, Any]) -> None:
        """An operator has failed on some tuples; the second time, its node is left alone."""
        failure = (event["output"], event["where"])
        if failure != node.failure:
            node.failure = failure
            return
        node.gives_up = True
        if node.due_s is not None:
            node.due_s = math.inf
        self._say(
            f"node {node.name} is not started again, because it fails each time: {event['why']}",
            **_told(event),
        )

    def _needs_spark(self, name: str) -> bool:
        computes = any(name in nodes for nodes in self._cluster.replicas.values())
        return computes and self._cluster.nodes[name].engine == "spark"

    def _start(self, node: _Kept, now: float) -> None:
        """Start a node, or adopt its process if it runs already."""
        node.due_s, node.began_s, node.answers = None, now, False
        if node.runs:
            return
        try:
            node.process, node.logged = _spawn(
                node.log, "node", node.name, "--cluster", str(self._file)
            )
        except OSError as error:
            self._again(node, now, error.strerror or str(error))

    def _died(self, node: _Kept, now: float) -> None:
        code = None if node.process is None else node.process.returncode
        said = last_line(node.log, node.logged)
        if code == USER_ERROR_EXIT_CODE and not node.worked:
            raise UserError(
                f"cannot {'go on' if node.answers else 'start'}: {said}", name=node.name
            )
        self._again(node, now, _why(code, said))

    def _again(self, node: _Kept, now: float, why: str) -> None:
        """Schedule the restart of a node after its restart delay."""
        node.answers, node.process = False, None
        if node.gives_up:
            node.due_s = math.inf
            return
        if now - node.began_s > HEALTHY_AFTER_S:
            node.again_s = RESTART_DELAY_S
        wait = node.again_s
        node.due_s, node.again_s = now + wait, min(2 * wait, MAX_RESTART_DELAY_S)
        self._say(
            f"node {node.name} has ended ({why}): it is started again in {wait:g} s",
            event="ended",
            node=node.name,
            why=why,
            again_s=wait,
        )

    def _tell_ready(self, node: _Kept) -> None:
        address, process = self._cluster.nodes[node.name].address, node.identity
        pid = number(process) if process else None
        self._say(
            f"node {node.name} listens at {address} (pid {pid})",
            event="listens",
            node=node.name,
            address=address,
            pid=pid,
        )

    def stop(self) -> None:
        """Stop all nodes."""
        end([process for node in self._nodes if (process := node.identity)])
        for node in self._nodes:
            if node.process is not None:
                node.process.wait()


def _spawn(log: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """A command of ours in a session of its own, and how long its log was before it."""
    make_directory(log.parent)
    with log.open("ab") as out:
        before = out.tell()
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        return process, before


def _why(code: int | None, said: str) -> str:
    if code is None:
        return "the reason is unknown"
    if code < 0:
        return f"killed by signal {-code}"
    return f"exit code {code}{f': {said}' if code and said else ''}"


def _told(event: dict[str, Any]) -> dict[str, Any]:
    """What an event says besides when and how loudly."""
    return {k: v for k, v in event.items() if k not in ("time", "level", "id")}


def detach(file: Path, cluster: Cluster, base: Path, patience_s: float) -> int:
    """Start a supervisor in the background; its number, once all nodes answer."""
    log = base / cluster.state / "up.txt"
    with stopping("write", log):
        process, logged = _spawn(log, "up", str(file))
    try:
        _wait_until_up(AdminClient(cluster, base), process, patience_s)
    except BaseException:
        end([who for who in [identity(process.pid)] if who], STOP_TIMEOUT_S)
        raise
    if process.returncode == USER_ERROR_EXIT_CODE:
        raise UserError(last_line(log, logged))
    if process.returncode is not None:
        raise Stopped(last_line(log, logged) or f"the supervisor has ended: see {log}")
    return process.pid


def _wait_until_up(admin: AdminClient, process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Until all nodes answer, or the supervisor has ended."""
    deadline = time.monotonic() + patience_s
    silent = list(admin.cluster.nodes)
    while silent and process.poll() is None:
        silent = [node for node in silent if not admin.says_hello(node, HELLO_TIMEOUT_S)]
        if time.monotonic() > deadline:
            raise Stopped(f"{', '.join(silent)} did not answer within {patience_s:.0f} s")
        time.sleep(0.1)
