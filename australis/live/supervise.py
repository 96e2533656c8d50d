"""Nodes of a cluster as processes of this machine, started again when they die."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from australis.catalog.cluster import Cluster
from australis.kernel.errors import Stopped, UserError
from australis.live.files import make_directory, stopping
from australis.live.operate import Operator
from australis.live.processes import end, identity, named_in, number

AGAIN_S = 0.5
"""How soon a node that died is started again; each time it takes twice as long,"""
LONGEST_S = 10.0
"""but never longer than this."""
WELL_S = 60.0
"""A node that has lived so long is well: the next time it is started again soon."""
DETACHED_S = 25.0
"""So long a supervisor may take to stop its nodes."""
HELLO_S = 0.5
USERS_MISTAKE = 2
"""The exit code of a command whose input is wrong; starting it again does not help."""

COMMAND = (sys.executable, "-m", "australis.cli.main")


class Say(Protocol):
    """Tells a person one line, or a program the same as an object."""

    def __call__(self, sentence: str, **about: object) -> None:
        """Tell what has happened."""
        ...


def pid_file(state: Path, node: str) -> Path:
    """Where a node's process is named."""
    return state / node / "pid"


def supervisor_file(state: Path) -> Path:
    """Where the process is named that looks after all nodes."""
    return state / "up.pid"


def last_line(path: Path, since: int = 0) -> str:
    """The last thing a process said after so many bytes, without the name of the command."""
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
    """A node that is kept running."""

    name: str
    log: Path
    pid_file: Path
    process: subprocess.Popen[bytes] | None = None
    logged: int = 0
    """How long its log was when it was started."""
    began_s: float = 0.0
    again_s: float = AGAIN_S
    due_s: float | None = 0.0
    """When it is to be started; None while it runs."""
    answers: bool = False
    answered: bool = False
    """Whether it ever did."""

    @property
    def mine(self) -> bool:
        """Whether the process that was started here runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def runs(self) -> bool:
        """Whether that one runs, or one that somebody else has started."""
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
        self._operator = Operator(cluster, base)
        state = base / cluster.state
        self._nodes = [
            _Kept(name, state / name / "log.txt", pid_file(state, name)) for name in cluster.nodes
        ]

    @property
    def ready(self) -> bool:
        """Whether all nodes answer."""
        return all(node.answers for node in self._nodes)

    def look(self) -> None:
        """Start what is due, notice what has died, and say who answers."""
        now = self._clock()
        for node in self._nodes:
            if node.due_s is not None:
                if now >= node.due_s:
                    self._start(node, now)
            elif not node.runs:
                self._died(node, now)
            elif not node.answers and self._operator.says_hello(node.name, HELLO_S):
                node.answers = node.answered = True
                self._tell_ready(node)

    def _start(self, node: _Kept, now: float) -> None:
        """Start a node, unless somebody else has: then that one is looked after."""
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
        if code == USERS_MISTAKE and not node.answered:
            raise UserError(f"cannot start: {said}", name=node.name)
        self._again(node, now, _why(code, said))

    def _again(self, node: _Kept, now: float, why: str) -> None:
        """Start a node again after a while."""
        if now - node.began_s > WELL_S:
            node.again_s = AGAIN_S
        wait = node.again_s
        node.due_s, node.again_s = now + wait, min(2 * wait, LONGEST_S)
        node.answers, node.process = False, None
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
        return "nobody knows why"
    if code < 0:
        return f"killed by signal {-code}"
    return f"exit code {code}{f': {said}' if code and said else ''}"


def detach(file: Path, cluster: Cluster, base: Path, patience_s: float) -> int:
    """Start a supervisor in the background; its number, once all nodes answer."""
    log = base / cluster.state / "up.txt"
    with stopping("write", log):
        process, logged = _spawn(log, "up", str(file))
    try:
        _wait_until_up(Operator(cluster, base), process, patience_s)
    except BaseException:
        end([who for who in [identity(process.pid)] if who], DETACHED_S)
        raise
    if process.returncode == USERS_MISTAKE:
        raise UserError(last_line(log, logged))
    if process.returncode is not None:
        raise Stopped(last_line(log, logged) or f"the supervisor has ended: see {log}")
    return process.pid


def _wait_until_up(operator: Operator, process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Until all nodes answer, or the supervisor has ended."""
    deadline = time.monotonic() + patience_s
    silent = list(operator.cluster.nodes)
    while silent and process.poll() is None:
        silent = [node for node in silent if not operator.says_hello(node, HELLO_S)]
        if time.monotonic() > deadline:
            raise Stopped(f"{', '.join(silent)} did not answer within {patience_s:.0f} s")
        time.sleep(0.1)
