"""Submits SQL statements to a Flink cluster; runs where PyFlink is installed, not Australis.

    python flink_job.py REST_PORT FILE

The file has statements with an empty line between them; the last one is the job.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main(port: str, file: str) -> None:
    """Submit the statements; the job continues without this process."""
    config = Configuration()
    settings = yaml.safe_load((Path(os.environ["FLINK_CONF_DIR"]) / "config.yaml").read_text())
    for name, value in settings.items():  # a job does not inherit the cluster's options
        config.set_string(name, str(value))
    config.set_string("execution.target", "remote")
    config.set_string("execution.attached", "false")
    config.set_string("rest.address", "localhost")
    config.set_string("rest.port", port)
    made = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(config)
    environment = TableEnvironment.create(made.build())
    for statement in Path(file).read_text().split("\n\n"):
        environment.execute_sql(statement)


if __name__ == "__main__":
    main(*sys.argv[1:3])
