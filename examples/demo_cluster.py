"""`make demo-cluster`: the same query on a standalone Spark cluster with two workers.

Master and workers come from the pip installation of pyspark. The driver stays
here with the logs; the tasks run in the workers' processes and reach them over
Arrow Flight.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from australis.runtime.testbed import free_ports
from examples.demo_single import show

HOST = "127.0.0.1"
START_LIMIT_S = 60


@contextmanager
def standalone(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """A master and its workers on this machine; the address of the master."""
    home = Path(pyspark.__file__).parent
    (port,) = free_ports(1)
    master = f"spark://{HOST}:{port}"
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", HOST, "--port", str(port)]]
    commands[0] += ["--webui-port", "0"]
    worker = [f"{deploy}.worker.Worker", "--host", HOST, "-c", str(cores), "-m", memory]
    commands += [[*worker, "--webui-port", "0", master] for _ in range(workers)]
    with tempfile.TemporaryDirectory(prefix="australis-cluster-") as scratch:
        environment["SPARK_WORKER_DIR"] = scratch
        processes = []
        try:
            for command in commands:
                processes.append(_launch(home, command, environment, Path(scratch)))
                _await(port)
            yield master
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(20)


def _launch(
    home: Path, command: list[str], environment: dict[str, str], scratch: Path
) -> subprocess.Popen[bytes]:
    log = (scratch / "cluster.log").open("ab")
    return subprocess.Popen(
        [str(home / "bin" / "spark-class"), *command], env=environment, stdout=log, stderr=log
    )


def _await(port: int) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit("the Spark master did not start")


def main() -> int:
    """Start a cluster, run the demo on it, stop the cluster."""
    with standalone() as master:
        settings = {
            "spark.executor.memory": "800m",
            "spark.cores.max": "2",
            "spark.driver.host": HOST,
        }
        return 0 if show(master, spark_settings=settings) else 1


if __name__ == "__main__":
    raise SystemExit(main())
