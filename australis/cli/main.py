"""`australis`: check, draw, convert, run and measure diagrams; run clusters of nodes.

Exit codes: 0 done and all ok, 1 a target was missed or the run had to stop, 2 the
user's input is wrong.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from australis import __version__
from australis.cli.bench import bench
from australis.cli.certs import certs
from australis.cli.cluster import down, node, up
from australis.cli.contracts import contracts
from australis.cli.diagrams import check, convert, draw
from australis.cli.elasticity import elasticity
from australis.cli.experiment import experiment
from australis.cli.fault import fault
from australis.cli.place import place
from australis.cli.run import run
from australis.cli.scenario import scenario
from australis.cli.sim import sim
from australis.cli.sim_ants import ants
from australis.cli.sim_elasticity import sim_elasticity
from australis.cli.sim_hotspots import hotspots
from australis.cli.sim_movement import movement
from australis.cli.status import status
from australis.cli.tail import tail
from australis.kernel.errors import Stopped, UserError


class _Commands(click.Group):
    """Whoever reads what is printed may stop reading: `australis tail ... | head`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Carry a command out; nothing is wrong when nobody reads on."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            pass
        except SystemExit as ended:  # rich says so
            if not isinstance(ended.__context__, BrokenPipeError):
                raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="australis")
def cli() -> None:
    """Federated, fault-tolerant stream processing on Apache Spark.

    A diagram is a .yaml file, or a .py file that defines `diagram`. Begin with
    examples/network_monitoring.yaml: check it, draw it, run it, change it.
    """


for command in (
    *(check, draw, convert, run, up, down, status, tail, fault, node, certs),
    *(contracts, place, elasticity, sim, scenario, bench, experiment),
):
    cli.add_command(command)
sim.add_command(ants)
sim.add_command(sim_elasticity)
sim.add_command(movement)
sim.add_command(hotspots)


def main() -> None:
    """Run the command line; mistakes are told in one sentence."""
    try:
        code = cli.main(standalone_mode=False)
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
    sys.exit(code if isinstance(code, int) else 0)


def _tell(sentence: str, code: int) -> int:
    click.echo(f"australis: {sentence}", err=True)
    return code


if __name__ == "__main__":
    main()
