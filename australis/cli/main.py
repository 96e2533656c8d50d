"""`australis`: check, draw, convert, run and measure diagrams; run clusters of nodes.

Exit codes: 0 done and all ok, 1 a target was missed or the run had to stop, 2 the
user's input is wrong.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from australis import __version__
from australis.cli.interrupts import OWN_PROCESS
from australis.cli.lazy import LazyCommand, LazyGroup
from australis.kernel.errors import Stopped, UserError

COMMANDS = {
    "apps": LazyCommand(
        "australis.cli.apps:apps",
        "List the applications of a cluster: what runs where, and what is changing.",
    ),
    "bench": LazyCommand(
        "australis.cli.bench:bench", "Measure, side by side, as ratios in one run."
    ),
    "certs": LazyCommand(
        "australis.cli.certs:certs",
        "Make certificates by which nodes know each other and encrypt what they send.",
    ),
    "chaos": LazyCommand(
        "australis.cli.chaos:chaos",
        "Let random faults happen to real clusters, and check what they promise.",
    ),
    "check": LazyCommand(
        "australis.cli.diagrams:check", "Find the mistakes in a file before anything runs."
    ),
    "contracts": LazyCommand(
        "australis.cli.contracts:contracts",
        "Share load with others under contracts: plan, check, try.",
    ),
    "convert": LazyCommand(
        "australis.cli.diagrams:convert", "Write a YAML diagram as Python, or a Python one as YAML."
    ),
    "down": LazyCommand(
        "australis.cli.cluster:down", "Stop the nodes of a cluster that run on this machine."
    ),
    "drain": LazyCommand(
        "australis.cli.change:drain",
        "Move all replicas away from NODE, one after the other, while clients read.",
    ),
    "draw": LazyCommand("australis.cli.diagrams:draw", "Draw a diagram, as text or SVG."),
    "elasticity": LazyCommand(
        "australis.cli.elasticity:elasticity",
        "Say how many cores the modules of FILE should have, and what that costs.",
    ),
    "experiment": LazyCommand(
        "australis.cli.experiment:experiment",
        "Run the papers' experiments again, with a verdict on each of their claims.",
    ),
    "fault": LazyCommand(
        "australis.cli.fault:fault", "Inject faults, where the cluster file says 'faults: allowed'."
    ),
    "fsck": LazyCommand(
        "australis.cli.fsck:fsck",
        "Check every byte of a state directory, and say what would repair it.",
    ),
    "move": LazyCommand(
        "australis.cli.change:move",
        "Move a replica of a fragment to another node, while clients read.",
    ),
    "node": LazyCommand("australis.cli.cluster:node", "Run one node of a cluster."),
    "place": LazyCommand(
        "australis.cli.place:place",
        "Place the queries of FILE on its servers, as a colony of ants would.",
    ),
    "replicas": LazyCommand(
        "australis.cli.change:replicas", "Let a fragment have NUMBER replicas, while clients read."
    ),
    "run": LazyCommand("australis.cli.run:run", "Run a diagram."),
    "scenario": LazyCommand(
        "australis.cli.scenario:scenario",
        "Let a cluster fail as a file says, and look at what its client sees.",
    ),
    "sim": LazyCommand(
        "australis.cli.sim:sim", "Run protocols in a simulated world, reproducibly from a seed."
    ),
    "status": LazyCommand(
        "australis.cli.status:status", "Show what runs where in a cluster, and how it is doing."
    ),
    "submit": LazyCommand(
        "australis.cli.apps:submit",
        "Let a diagram run on a cluster that runs already, beside what it runs.",
    ),
    "tail": LazyCommand(
        "australis.cli.tail:tail", "Print the tuples of a stream as they come, with their types."
    ),
    "undrain": LazyCommand(
        "australis.cli.change:undrain",
        "Let applications use NODE again; nothing moves back by itself.",
    ),
    "up": LazyCommand("australis.cli.cluster:up", "Start all nodes of a cluster on this machine."),
    "withdraw": LazyCommand(
        "australis.cli.apps:withdraw",
        "Stop an application for good, and remove its state from all nodes.",
    ),
}


class _Commands(LazyGroup):
    """A group that handles a reader that closes the pipe, as in `australis tail ... | head`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a closed pipe is not an error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            pass
        except SystemExit as ended:  # rich raises it for a closed pipe
            if not isinstance(ended.__context__, BrokenPipeError):
                raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@click.group(
    cls=_Commands,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="australis")
def cli() -> None:
    """Federated, fault-tolerant stream processing on Apache Spark.

    A diagram is a .yaml file, or a .py file that defines `diagram`. Begin with
    examples/network_monitoring.yaml: check it, draw it, run it, change it.
    """


def main() -> None:
    """Run the command line; report a user's mistake as one sentence."""
    try:
        code = cli.main(standalone_mode=False, obj=OWN_PROCESS)
    except UserError as error:
        code = _tell(" ".join(str(error).split()), error.exit_code)
    except Stopped as error:
        code = _tell(f"stopped: {error}", 1)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 2
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        code = _tell(error.format_message() + hint, 2)
    except click.ClickException as error:
        code = _tell(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        code = _tell("interrupted", 130)
    _end(code if isinstance(code, int) else 0)


def _tell(sentence: str, code: int) -> int:
    with suppress(OSError):  # as on a full disk
        click.echo(f"australis: {sentence}", err=True)
    return code


def _end(code: int) -> NoReturn:
    """End this process; one that ran a node does not wait for threads that may wait for ever."""
    ending = sys.modules.get("australis.runtime.ending")
    if ending is not None and ending.begun():
        ending.leave(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
