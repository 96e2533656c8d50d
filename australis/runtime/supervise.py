"""Nodes of a cluster as processes of this machine, restarted when they die or do not answer."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from australis.deployment.cluster import Cluster
from australis.kernel.errors import Stopped, UserError
from australis.runtime.admin import AdminClient
from australis.runtime.ending import TELL_STACKS
from australis.runtime.files import make_directory, open_private, replace_file, stopping
from australis.runtime.node.events import FILE as EVENTS
from australis.runtime.processes import (
    EXIT_TIMEOUT_S,
    end,
    identity,
    is_paused,
    named_in,
    number,
    send,
)
from australis.runtime.state import StateDirectory

RESTART_DELAY_S = 0.5
"""The first delay before a node that died is restarted; it doubles with each restart."""
MAX_RESTART_DELAY_S = 10.0
"""The longest delay before a restart."""
HEALTHY_AFTER_S = 60.0
"""The uptime after which a node counts as healthy, which resets its restart delay."""
STOP_TIMEOUT_S = EXIT_TIMEOUT_S + 1.5
"""The longest time that a supervisor takes to stop its nodes, whichever it is asking now."""
HELLO_TIMEOUT_S = 0.5
ASK_EVERY_S = 2.0
"""The interval at which a node that has answered is asked again."""
SILENT_AFTER_S = 10.0
"""The silence after which a node is said not to answer."""
UNANSWERED_S = 120.0
"""The silence after which a node that had answered is killed and started again.

It is long, since others mask a node that is paused, and a debugger or a busy machine may be why."""
UNSTARTED_S = 600.0
"""The time after which a node that has never answered is killed and started again."""
STACKS_S = 1.0
"""The time that a node that is killed has to write down the stacks of its threads."""
ALARMS = ("stuck", "clock_jumped", "clock_off", "source_ahead", "output_waits", "output_goes_on")
"""The events of nodes that `up` tells as they are: each has a whole sentence in `why`."""
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


def news_file(state: Path) -> Path:
    """The file in which a supervisor keeps what it knows of its nodes (`Supervised`)."""
    return state / "up.json"


class Supervised(msgspec.Struct, frozen=True):
    """What a supervisor knows of a node beyond what that says itself."""

    ended: int = 0
    """How often it has ended by itself, or been killed because it did not answer."""
    why: str = ""
    """Why it ended the last time."""
    at_us: int = 0
    """When that was, by the wall clock."""


def supervised(state: Path) -> dict[str, Supervised]:
    """What the supervisor of a cluster on this machine knows of its nodes; nothing if none runs."""
    if named_in(supervisor_file(state)) is None:
        return {}
    try:
        return msgspec.json.decode(news_file(state).read_bytes(), type=dict[str, Supervised])
    except (OSError, msgspec.MsgspecError):
        return {}


def process_of(state: Path, node: str) -> str:
    """What the process of a node on this machine is doing, in a few words; empty if unknown."""
    process = named_in(pid_file(state, node))
    if process is None:
        return ""
    paused = is_paused(process)
    return f"its process {number(process)} {'is paused (SIGSTOP)' if paused else 'runs'}"


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
    ask_s: float = 0.0
    """The time at which it is asked again whether it answers."""
    heard_s: float = 0.0
    """The time at which it has answered last, or was started."""
    silent: bool = False
    """Whether it was said not to answer."""
    told: Supervised = field(default_factory=Supervised)
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
        for line in whole.splitlines():
            with suppress(ValueError):  # a full disk may have cut it short
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

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
        state = self._state = base / cluster.state
        self._nodes = [
            _Kept(name, state / name / "log.txt", pid_file(state, name)) for name in cluster.nodes
        ]
        for node in self._nodes:
            node.events_read = node.events_size  # earlier ones were told before
        self._note()

    @property
    def ready(self) -> bool:
        """Whether all nodes answer."""
        return all(node.answers for node in self._nodes)

    def look(self, leave_off: Callable[[], bool] = lambda: False) -> None:
        """Start nodes that are due, detect those that died or are silent, and report the others.

        It may be told to `leave_off`, since a node that does not answer takes a while to ask.
        """
        now = self._clock()
        for node in self._nodes:
            if leave_off():
                return
            self._tell_events(node)
            if node.due_s is not None:
                if now >= node.due_s:
                    self._start(node, now)
            elif not node.runs:
                self._died(node, now)
            else:
                self._ask(node, now)
                if node.answers and now - node.began_s > HEALTHY_AFTER_S and not node.worked:
                    node.worked = not self._needs_spark(node.name) or node.spark_pid.exists()

    def _ask(self, node: _Kept, now: float) -> None:
        """Ask a node that runs whether it answers, and end one that has not for too long."""
        if now < node.ask_s:
            return
        if self._admin.says_hello(node.name, HELLO_TIMEOUT_S):
            if node.silent:
                self._say(
                    f"node {node.name} answers again, after {now - node.heard_s:.0f} s",
                    event="answers",
                    node=node.name,
                )
            node.ask_s, node.heard_s, node.silent = now + ASK_EVERY_S, now, False
            if not node.answers:
                node.answers = True
                self._tell_ready(node)
            return
        silent_s = now - node.heard_s
        if silent_s >= (UNANSWERED_S if node.answers else UNSTARTED_S):
            self._kill(node, silent_s, now)
        elif node.answers and silent_s >= SILENT_AFTER_S and not node.silent:
            node.silent = True
            self._tell_silent(node, silent_s)

    def _tell_silent(self, node: _Kept, silent_s: float) -> None:
        paused = is_paused(node.identity)
        why = (
            f"its process is paused: `kill -CONT {number(node.identity)}` lets it go on"
            if paused
            else "its process runs"
        )
        self._say(
            f"node {node.name} does not answer for {silent_s:.0f} s ({why}); after"
            f" {UNANSWERED_S:.0f} s it is killed and started again",
            event="silent",
            node=node.name,
            silent_s=round(silent_s, 1),
            paused=paused,
        )

    def _kill(self, node: _Kept, silent_s: float, now: float) -> None:
        """Kill a node that does not answer, after it has written down what its threads do."""
        why = f"it did not answer for {silent_s:.0f} s and was killed"
        end([node.identity], STACKS_S, TELL_STACKS)
        if node.process is not None:
            node.process.wait()
        self._again(node, now, why)

    def _tell_events(self, node: _Kept) -> None:
        """Report what only a person can mend: replicas' logs that differ, and lost states."""
        for event in node.new_events():
            if event.get("event") in ALARMS:
                self._say(f"node {node.name}: {event.get('why')}", **_told(event))
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
        node.ask_s, node.heard_s, node.silent = 0.0, now, False
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
        end_jvm(node.spark_pid)
        node.told = Supervised(node.told.ended + 1, why, time.time_ns() // 1000)
        self._note()
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

    def _note(self) -> None:
        """Write down what `status` tells of the nodes, unless the disk is full."""
        told = {node.name: node.told for node in self._nodes}
        path = news_file(self._state)
        with suppress(OSError):
            replace_file(path, msgspec.json.encode(told))

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
            end_jvm(node.spark_pid)


def end_jvm(path: Path) -> None:
    """Kill the JVM of a node that has ended: nothing that it does is of use to anyone."""
    jvm = named_in(path)
    if jvm is not None:
        send(jvm, signal.SIGKILL)


def _spawn(log: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """A command of ours in a session of its own, and how long its log was before it."""
    make_directory(log.parent)
    with open(open_private(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as out:
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
