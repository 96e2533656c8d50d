"""`australis node`, `up` and `down`: the processes of a cluster."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from australis.cli.interrupts import asked_to_stop, owns_process
from australis.cli.kinds import FileKind, expect
from australis.kernel.errors import Stopped, UserError

if TYPE_CHECKING:
    from australis.deployment.cluster import Cluster
    from australis.diagram.model import Diagram
    from australis.runtime.node.process import Node

LOOK_S = 0.1
ASKED_AGAIN_S = 0.5
"""How long `down` waits for nodes that their supervisor has asked to end already."""
START_S = 180.0
"""How long `up --detach` waits for all nodes, including the start of Spark."""

FILE = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
IDENTITY = click.option(
    "--identity",
    metavar="NAME",
    help="Whose certificate to show where the cluster has TLS.  [default: the first that is here]",
)


class Teller:
    """Prints lines for people, or the same as JSON for programs."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(self, sentence: str, **about: object) -> None:
        """Print an event; on a full disk it is lost, since nothing may end for want of a line."""
        try:
            click.echo(json.dumps(about) if self._as_json else sentence)
        except BrokenPipeError:
            raise
        except OSError:
            return


@click.command()
@click.argument("name")
@click.option(
    "--cluster",
    "file",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="The cluster file that names the node.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what happens as JSON lines.")
def node(name: str, file: Path, as_json: bool) -> None:
    """Run one node of a cluster.

    It runs until Ctrl-C or SIGTERM, and goes on where it was when it is started again.
    On several machines, run each node on its own, all with the same cluster file.

    \b
    Example:
      australis node a --cluster examples/cluster.yaml
    """
    from australis.runtime import ending
    from australis.runtime.client import load_cluster
    from australis.runtime.node.memory import give_back
    from australis.runtime.node.process import Node
    from australis.runtime.node.settings import NodeSettings
    from australis.runtime.processes import PidFile
    from australis.runtime.supervise import pid_file

    give_back()
    expect(file, FileKind.CLUSTER)
    say = Teller(as_json)
    cluster, diagram, base = load_cluster(file)
    settings = NodeSettings()
    if owns_process():
        ending.prepare()
        settings = NodeSettings(on_stop=lambda: ending.begin(lambda: _failure(one)))
    one = Node(cluster, diagram, name, base=base, settings=settings)
    address = cluster.nodes[name].address
    started = False
    stop = asked_to_stop(interrupts=True)
    with stop as request, PidFile(pid_file(base / cluster.state, name), name):
        with suppress(KeyboardInterrupt):
            one.start()
            started = True
            say(f"node {name} listens at {address}", event="listens", node=name, address=address)
            while not (one.errors or request.made):
                time.sleep(LOOK_S)
            request.interrupts = False
        if started:
            one.stop()
    one.check()
    say(f"node {name} has stopped", event="stopped", node=name)


def _failure(node: Node) -> str:
    """Why a node has failed, if it has."""
    return str(node.errors[0]) if node.errors else ""


@click.command()
@FILE
@click.option(
    "--detach",
    is_flag=True,
    help="Return once all nodes answer, and leave them running; `australis down` stops them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what happens as JSON lines.")
def up(file: Path, detach: bool, as_json: bool) -> None:
    """Start all nodes of a cluster on this machine.

    Each is a process of its own. One that dies is started again: after half a second, the
    next times after twice as long, at most ten seconds. One that does not answer is told of
    after ten seconds, and after two minutes killed and started again. Ctrl-C stops them all.
    What a node says is in NAME/log.txt, in the state directory of the cluster.

    \b
    Examples:
      australis up examples/cluster.yaml             until Ctrl-C
      australis up examples/cluster.yaml --detach    in the background
    """
    from australis.runtime.checks import check_parts
    from australis.runtime.client import load_cluster

    expect(file, FileKind.CLUSTER)
    cluster, diagram, base = load_cluster(file, needs_epoch=False)
    check_parts(diagram, base)
    if detach:
        _detach(file, cluster, base, Teller(as_json))
    else:
        _supervise(file, cluster, diagram, base, Teller(as_json))


def _supervise(file: Path, cluster: Cluster, diagram: Diagram, base: Path, say: Teller) -> None:
    from australis.runtime.epoch import keep_epoch
    from australis.runtime.processes import PidFile
    from australis.runtime.supervise import Supervisor, supervisor_file

    state = base / cluster.state
    with asked_to_stop() as request, PidFile(supervisor_file(state), cluster.name):
        keep_epoch(cluster, diagram, base)
        supervisor = Supervisor(file, cluster, base, say)
        ready = False
        try:
            say(f"starting {cluster.name}, state in {state}", event="starting", state=str(state))
            while not request.made:
                supervisor.look(lambda: request.made)
                if supervisor.ready and not ready:
                    ready = True
                    say("all nodes are up; Ctrl-C stops them", event="up", cluster=cluster.name)
                time.sleep(LOOK_S)
        finally:
            supervisor.stop()
    say(f"{cluster.name} has stopped", event="stopped", cluster=cluster.name)


def _detach(file: Path, cluster: Cluster, base: Path, say: Teller) -> None:
    from australis.runtime.processes import named_in, number
    from australis.runtime.supervise import detach, supervisor_file

    state = base / cluster.state
    if (process := named_in(supervisor_file(state))) is not None:
        raise UserError(f"runs already (pid {number(process)})", name=cluster.name)
    pid = detach(file, cluster, base, START_S)
    say(
        f"{cluster.name} is up: {', '.join(cluster.nodes)} (pid {pid} looks after them);"
        f" `australis down {file}` stops it",
        event="up",
        cluster=cluster.name,
        pid=pid,
        nodes={name: place.address for name, place in cluster.nodes.items()},
    )


@click.command()
@FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def down(file: Path, as_json: bool) -> None:
    """Stop the nodes of a cluster that run on this machine.

    First what looks after them, then each node; one that does not stop within eight seconds
    is killed, so that all have ended within ten. Nothing that was acknowledged is lost:
    `australis up` goes on.

    \b
    Example:
      australis down examples/cluster.yaml
    """
    from australis.runtime.client import load_nodes
    from australis.runtime.processes import EXIT_TIMEOUT_S, end, named_in, number, runs
    from australis.runtime.state import StateDirectory
    from australis.runtime.supervise import STOP_TIMEOUT_S, end_jvm, pid_file, supervisor_file

    expect(file, FileKind.CLUSTER)
    cluster, base = load_nodes(file)
    state = base / cluster.state
    files = {name: pid_file(state, name) for name in cluster.nodes}
    ran = {name: process for name, path in files.items() if (process := named_in(path))}
    supervisor = named_in(supervisor_file(state))
    asked = supervisor is not None
    if supervisor is not None:
        end([supervisor], STOP_TIMEOUT_S)
    still = [process for path in files.values() if (process := named_in(path))]
    end(still, ASKED_AGAIN_S if asked else EXIT_TIMEOUT_S)
    for path in files.values():
        end_jvm(StateDirectory(path.parent).spark_pid)
    left = [name for name, process in ran.items() if runs(process)]
    if left:
        raise Stopped(f"cannot stop {', '.join(left)} of {cluster.name}")
    stopped = {name: number(process) for name, process in ran.items()}
    if as_json:
        pid = None if supervisor is None else number(supervisor)
        click.echo(json.dumps({"cluster": cluster.name, "supervisor": pid, "stopped": stopped}))
    elif stopped or supervisor is not None:
        nodes = ", ".join(f"{name} (pid {pid})" for name, pid in stopped.items())
        click.echo(f"{cluster.name} has stopped: {nodes or 'no node ran'}")
    else:
        click.echo(f"{cluster.name} does not run on this machine")
