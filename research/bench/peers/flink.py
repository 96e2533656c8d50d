"""A Flink cluster on this machine: a JobManager, and TaskManagers whose output is read."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from australis.kernel.errors import Stopped, UserError
from australis.runtime.testbed import free_ports

VERSION = "2.3"
ENVIRONMENT = Path(".peers")
"""The environment that `make peers` creates."""
LIMIT_S = 120.0
TUNED = {
    "heartbeat.interval": 500,
    "heartbeat.timeout": 3000,
    "heartbeat.rpc-failure-threshold": 1,
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1_000_000,
    "restart-strategy.fixed-delay.delay": "0 s",
    "execution.checkpointing.interval": "500 ms",
    "pipeline.auto-watermark-interval": "50 ms",
    "parallelism.default": 1,
    "taskmanager.numberOfTaskSlots": 1,
    "jobmanager.memory.process.size": "1 g",
    "taskmanager.memory.process.size": "1728 m",
}
"""Settings with which it detects failures and recovers fastest."""

Tell = Callable[[str], None]
"""Receives each line that a job prints."""


def home(environment: Path = ENVIRONMENT) -> Path:
    """The directory of the Flink installation."""
    found = sorted(environment.glob("lib/python3*/site-packages/pyflink"))
    if not found:
        raise UserError("has no Flink: run `make peers` once", name=str(environment))
    return found[0].resolve()


class Flink:
    """A cluster with one TaskManager more than its job needs."""

    def __init__(
        self,
        directory: Path,
        tell: Tell,
        settings: Mapping[str, object] | None = None,
        task_managers: int = 2,
    ) -> None:
        self._home = home()
        self._directory = directory
        self._tell = tell
        rpc, self._rest = free_ports(2)
        conf = directory / "conf"
        shutil.copytree(self._home / "conf", conf)
        own = yaml.safe_load((self._home / "conf" / "config.yaml").read_text())
        flat = {"env.java.opts.all": own["env"]["java"]["opts"]["all"]} | TUNED
        flat |= {
            "jobmanager.rpc.address": "localhost",
            "jobmanager.rpc.port": rpc,
            "jobmanager.bind-host": "localhost",
            "taskmanager.bind-host": "localhost",
            "taskmanager.host": "localhost",
            "rest.address": "localhost",
            "rest.bind-address": "localhost",
            "rest.port": self._rest,
            "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
            "io.tmp.dirs": str(directory / "tmp"),
            **(settings or {}),
        }
        (conf / "config.yaml").write_text("".join(f"{k}: {v}\n" for k, v in flat.items()))
        self._processes: list[subprocess.Popen[str]] = []
        self.working: subprocess.Popen[str] | None = None
        """The TaskManager that printed last."""
        try:
            self._start("jobmanager")
            for _ in range(task_managers):
                self.start_task_manager()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop all processes."""
        for process in self._processes:
            for what in (signal.SIGCONT, signal.SIGKILL):
                self.signal(process, what)
            process.wait()

    def start_task_manager(self) -> None:
        """Start another TaskManager, which stays idle until it is needed."""
        process = self._start("taskmanager")
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _start(self, what: str) -> subprocess.Popen[str]:
        environment = os.environ | {
            "FLINK_CONF_DIR": str(self._directory / "conf"),
            "FLINK_LOG_DIR": str(self._directory / "log"),
        }
        (self._directory / "log").mkdir(exist_ok=True)
        with (self._directory / "said.txt").open("a") as said:
            process = subprocess.Popen(
                ["bash", str(self._home / "bin" / f"{what}.sh"), "start-foreground"],
                stdin=subprocess.DEVNULL,
                stdout=said if what == "jobmanager" else subprocess.PIPE,
                stderr=said,
                env=environment,
                text=True,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if re.match(r"[+-][IUD]\[", line):
                self.working = process
                self._tell(line.strip())

    @staticmethod
    def signal(process: subprocess.Popen[str], what: signal.Signals) -> None:
        """Signal a JobManager or TaskManager and all its child processes."""
        try:
            os.killpg(process.pid, what)
        except ProcessLookupError:
            return

    def submit(self, *statements: str) -> None:
        """Run SQL statements, the last of which is the job."""
        file = self._directory / "job.sql"
        file.write_text("\n\n".join(s.strip().replace("\n\n", "\n") for s in statements))
        script = Path(__file__).with_name("flink_job.py")
        python = self._home.parents[3] / "bin" / "python"
        deadline = time.monotonic() + LIMIT_S
        while True:
            done = subprocess.run(
                [str(python), str(script), str(self._rest), str(file)],
                env=os.environ | {"FLINK_CONF_DIR": str(self._directory / "conf")},
                capture_output=True,
                text=True,
                check=False,
            )
            if not done.returncode:
                return
            if time.monotonic() > deadline or "Connection refused" not in done.stderr:
                raise Stopped(f"Flink did not take the job: {done.stderr.strip()[-2000:]}")
            time.sleep(1)
