"""Submits SQL statements to a Flink cluster; runs where PyFlink is installed, not Australis.

    python flink_job.py REST_PORT FILE

The file has statements with an empty line between them; the last one is the job.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main(port: str, file: str) -> None:
    """Hand the statements over; the job goes on without this process."""
    config = Configuration()
    config.set_string("execution.target", "remote")
    config.set_string("execution.attached", "false")
    config.set_string("rest.address", "localhost")
    config.set_string("rest.port", port)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    environment = TableEnvironment.create(settings.with_configuration(config).build())
    for statement in Path(file).read_text().split("\n\n"):
        environment.execute_sql(statement)


if __name__ == "__main__":
    main(*sys.argv[1:3])
