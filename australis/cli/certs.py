"""`australis certs`: certificates with which nodes authenticate each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from australis.deployment.cluster import OPERATOR
from australis.kernel.errors import UserError

if TYPE_CHECKING:
    from australis.runtime.certs import Issued


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--node",
    "nodes",
    multiple=True,
    required=True,
    metavar="NAME",
    help="A node that gets a certificate: letters, digits, - and _. Repeat it for more nodes.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME=ADDRESS",
    help="Where a node is reached, an IP address or a host's name. Repeat it for more addresses."
    "  [default: 127.0.0.1 and localhost]",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="How long new certificates are valid, but no longer than the authority's ten years.",
)
@click.option(
    "--renew",
    is_flag=True,
    help="Replace the certificates and keys of these nodes; without --host they keep their hosts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def certs(
    directory: Path,
    nodes: tuple[str, ...],
    hosts: tuple[str, ...],
    days: int,
    renew: bool,
    as_json: bool,
) -> None:
    """Make certificates by which nodes know each other and encrypt what they send.

    DIR holds an authority (ca.pem, ca.key), made the first time, and NAME.pem and
    NAME.key for each node. What exists is kept. Copy ca.pem and a node's own two files
    to its machine; with ca.key a program can pass for any node, so it stays here. A client
    of the cluster file needs a certificate of its name too. The first time there is one of
    the name 'operator' besides, with which `australis fault` may inject faults.

    \b
    Examples:
      australis certs certs --node n1 --node n2            two nodes on this machine
      australis certs certs --node n3 --host n3=10.0.0.5   one more, on another machine
      australis certs certs --node n1 --renew              before n1's certificate expires
    """
    from australis.runtime.certs import issue

    wanted = _reached(nodes, hosts)
    if not (directory / f"{OPERATOR}.pem").exists():
        wanted.setdefault(OPERATOR, [])
    issued = issue(directory, wanted, days, renew)
    if as_json:
        click.echo(json.dumps(_as_object(directory, issued)))
        return
    width = max(len(str(one.path)) for one in issued.values())
    for one in issued.values():
        at = f"for {', '.join(one.hosts)}, " if one.hosts else ""
        click.echo(f"{one.did:<7}  {one.path!s:<{width}}  {at}until {one.until:%Y-%m-%d}")


def _reached(nodes: tuple[str, ...], hosts: tuple[str, ...]) -> dict[str, list[str]]:
    """The addresses of each node; none for nodes without a given address."""
    reached: dict[str, list[str]] = {node: [] for node in nodes}
    for text in hosts:
        name, equals, address = text.partition("=")
        if not equals:
            raise UserError(f"is not of the form NAME=ADDRESS: {text!r}", name="--host")
        if name not in reached:
            raise UserError(f"is for '{name}', which no --node names", name=f"--host {text}")
        reached[name].append(address)
    return reached


def _as_object(directory: Path, issued: dict[str, Issued]) -> dict[str, object]:
    """What `--json` prints."""
    told = {
        name: {
            "did": one.did.value,
            "certificate": str(one.path),
            "key": str(one.path.with_suffix(".key")),
            "hosts": list(one.hosts),
            "until": one.until.isoformat(),
        }
        for name, one in issued.items()
    }
    authority = told.pop("ca")
    del authority["hosts"]
    return {"directory": str(directory), "authority": authority, "nodes": told}
