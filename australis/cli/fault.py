"""`australis fault`: inject faults into a cluster."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from australis.cli.cluster import FILE, IDENTITY
from australis.cli.kinds import FileKind, expect
from australis.cli.options import Duration, former
from australis.kernel.errors import UserError

if TYPE_CHECKING:
    from australis.runtime.fault_injection import Network

NODE = click.argument("node")
ONE_WAY = click.option(
    "--one-way", is_flag=True, help="Only what OTHER sends to NODE; what NODE sends gets through."
)


@click.group()
def fault() -> None:
    """Inject faults, where the cluster file says 'faults: allowed'.

    Watch them with `australis status FILE --watch` and `australis tail FILE STREAM`.

    \b
    Examples:
      australis fault kill examples/cluster.yaml a         the output goes on
      australis fault cut examples/cluster.yaml a edge     after a while a's results are tentative
      australis fault heal examples/cluster.yaml a         corrections follow
    """


def _signal(file: Path, node: str, what: signal.Signals) -> int:
    from australis.runtime.client import load_nodes
    from australis.runtime.fault_injection import signal_node

    expect(file, FileKind.CLUSTER)
    cluster, base = load_nodes(file)
    return signal_node(cluster, base, node, what)


def _network(file: Path, identity: str | None) -> Network:
    from australis.runtime.admin import AdminClient
    from australis.runtime.client import load_nodes
    from australis.runtime.fault_injection import Network, check_allowed

    expect(file, FileKind.CLUSTER)
    cluster, base = load_nodes(file)
    check_allowed(cluster)
    return Network(AdminClient(cluster, base, identity))


@fault.command()
@FILE
@NODE
def kill(file: Path, node: str) -> None:
    """Kill the process of a node, as `kill -9` does; `australis up` starts it again.

    \b
    Example:
      australis fault kill examples/cluster.yaml a
    """
    pid = _signal(file, node, signal.SIGKILL)
    click.echo(f"killed node {node} (pid {pid})")


@fault.command()
@FILE
@NODE
def pause(file: Path, node: str) -> None:
    """Let the process of a node stand still, as one that hangs.

    \b
    Example:
      australis fault pause examples/cluster.yaml a
    """
    pid = _signal(file, node, signal.SIGSTOP)
    click.echo(f"paused node {node} (pid {pid}); `australis fault resume {file} {node}` ends it")


@fault.command()
@FILE
@NODE
def resume(file: Path, node: str) -> None:
    """Let a node go on that was paused.

    \b
    Example:
      australis fault resume examples/cluster.yaml a
    """
    pid = _signal(file, node, signal.SIGCONT)
    click.echo(f"resumed node {node} (pid {pid})")


@fault.command()
@FILE
@NODE
@click.argument("other")
@ONE_WAY
@IDENTITY
def cut(file: Path, node: str, other: str, one_way: bool, identity: str | None) -> None:
    """Cut the network between a node and another node, or a client.

    \b
    Examples:
      australis fault cut examples/cluster.yaml a edge              neither hears the other
      australis fault cut examples/cluster.yaml a edge --one-way    a does not hear edge
    """
    _network(file, identity).cut(node, other, one_way=one_way)
    how = "no longer hears" if one_way else "is cut off from"
    click.echo(f"{node} {how} {other}; `australis fault heal {file} {node} {other}` ends it")


@fault.command()
@FILE
@NODE
@click.argument("other")
@click.option(
    "--by",
    "seconds",
    type=Duration(longest_s=60),
    default="500 ms",
    show_default=True,
    help="How much longer every message takes.",
)
@former("--seconds", into="seconds", kind=click.FloatRange(min=0, max=60, min_open=True))
@ONE_WAY
@IDENTITY
def slow(
    file: Path, node: str, other: str, seconds: float, one_way: bool, identity: str | None
) -> None:
    """Slow the network between two nodes.

    \b
    Example:
      australis fault slow examples/cluster.yaml a edge --by '200 ms'
    """
    _network(file, identity).slow(node, other, seconds, one_way=one_way)
    how = f"hears {other} {seconds:g} s later"
    both = how if one_way else f"and {other} hear each other {seconds:g} s later"
    click.echo(f"{node} {both}; `australis fault heal {file} {node} {other}` ends it")


@fault.command()
@FILE
@NODE
@click.argument("other", required=False)
@IDENTITY
def heal(file: Path, node: str, other: str | None, identity: str | None) -> None:
    """End the faults injected between two nodes, or between one and all others.

    \b
    Examples:
      australis fault heal examples/cluster.yaml a edge
      australis fault heal examples/cluster.yaml a
    """
    silent = _network(file, identity).heal(node, other)
    if silent:
        raise UserError(
            f"cannot be healed whole: {', '.join(silent)} did not answer",
            name=node if other is None else f"{node} {other}",
        )
    click.echo(f"healed {node} and {'all others' if other is None else other}")
