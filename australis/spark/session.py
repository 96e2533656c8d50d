"""The Spark session, with the settings that streams need.

Each setting has its reason beside it. Settings on which correct results depend come
last and cannot be overridden.
"""

from __future__ import annotations

import logging
import os
import shutil
import socketserver
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import accumulators
from pyspark.sql import SparkSession

from australis.kernel.errors import UserError

__all__ = [
    "SparkSession",
    "end_processes",
    "has_process",
    "open_session",
    "our_settings",
    "process_id",
    "tasks",
    "use_here",
]

_STREAMING = "org.apache.spark.sql.execution.streaming"

TUNING = {
    # A lane's state is small and forks often: RocksDB clones cheaply and keeps the heap free.
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_STREAMING}.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows would look up every key before each write: a third of a batch's time.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # The default manager and its checksums cost most of the time of a micro-batch's log.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.python.daemon.module": "australis.spark.daemon",
    # Over TCP the last bytes to a Python worker wait 40 ms for an acknowledgement of the first.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
FIXED = {
    "spark.sql.session.timeZone": "UTC",
    # A bad cast or a division by zero in one tuple gives NULL; it must not stop every replica.
    "spark.sql.ansi.enabled": "false",
    # Spark's parser would put variables of the environment into the text of an expression.
    "spark.sql.variable.substitute": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.statefulOperator.allowMultiple": "true",
}


_PRELOAD = "AUSTRALIS_PRELOAD"
"""The environment variable with the module that `spark.daemon` imports before it forks workers."""


def open_session(
    master: str = "local[*]",
    name: str = "australis",
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    host: str = "127.0.0.1",
    preload: str = "",
) -> SparkSession:
    """Open a session on this master, with Spark's log in `log`; a `UserError` without Java."""
    _need_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ[_PRELOAD] = preload
    # Spark's many Python processes return freed memory instead of each keeping a pool.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif ("://" in master or master == "yarn") and _loopback(host) and not _loopback(master):
        raise UserError(
            f"the workers of {master} cannot reach this machine at {host}:"
            " say at which address they can, with --host or as the address of the node"
        )
    builder = SparkSession.builder.master(master).appName(name)
    cores = _cores(master)
    reach = {} if local else {"spark.driver.host": host}
    everything = {
        "spark.sql.shuffle.partitions": str(cores),
        **TUNING,
        **reach,
        **(settings or {}),
        **FIXED,
    }
    for key, value in everything.items():
        builder = builder.config(key, value)
    try:
        with _standard_error_to(log):
            spark = builder.getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
    except Exception as error:
        text = str(error).splitlines()[0]
        raise UserError(f"Spark does not start on master {master!r}: {text}") from None
    _quiet_accumulators()
    _quiet_errors()
    return spark


def _loopback(address: str) -> bool:
    return "127.0.0." in address or "localhost" in address or "[::1]" in address


@contextmanager
def our_settings(spark: SparkSession) -> Iterator[None]:
    """Give a session the settings on which results depend; queries started meanwhile keep them."""
    cores = str(_cores(spark.sparkContext.master))
    settings = {"spark.sql.shuffle.partitions": cores, **TUNING, **FIXED}
    ours = {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
    before = {key: spark.conf.get(key, None) for key in ours}
    for key, value in ours.items():
        spark.conf.set(key, value)
    _quiet_accumulators()
    _quiet_errors()
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _quiet_errors() -> None:
    """Keep pyspark from logging errors as JSON on standard error; Australis reports them itself."""
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)


def _quiet_accumulators() -> None:
    """Keep pyspark from reporting the connection of its own that stopping a query cuts."""

    def handle_error(self: Any, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            socketserver.BaseServer.handle_error(self, request, client_address)

    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = handle_error  # type: ignore[method-assign]


def use_here(spark: SparkSession) -> None:
    """Make it the session of this thread, in which Spark looks up data sources."""
    assert spark._jvm is not None
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)


def process_id(spark: SparkSession) -> int:
    """The process id of the session's JVM."""
    assert spark._jvm is not None
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


LOOKUP = ("lookup_data_sources",)
"""The Spark Python processes that are done once every query has been started."""
READ_PLANNERS = ("plan_data_source_read",)
"""The Spark Python processes that are done once every query has begun to read."""
WRITE_PLANNERS = ("create_data_source",)
"""The Spark Python processes that are done once every query has committed a micro-batch."""
NEXT = {
    READ_PLANNERS: ("write_into_data_source",),
    WRITE_PLANNERS: ("python_streaming_sink_runner",),
}
"""The processes that Spark starts for a query right after its last use of the planners."""


def _processes(spark: SparkSession, modules: Sequence[str]) -> list[Any]:
    assert spark._jvm is not None
    return [
        handle
        for handle in spark._jvm.java.lang.ProcessHandle.current().descendants().toArray()
        if handle.info()
        .commandLine()
        .orElse("")
        .endswith(tuple(f"pyspark.sql.worker.{module}" for module in modules))
    ]


def has_process(spark: SparkSession, modules: Sequence[str]) -> bool:
    """Whether Spark has started such a Python process."""
    return bool(_processes(spark, modules))


def end_processes(spark: SparkSession, modules: Sequence[str]) -> None:
    """End planners that will not be used again; each holds about 90 MB.

    Only for a session of the node's own: in a user's session another query may be planned.
    """
    for handle in _processes(spark, modules):
        handle.destroy()


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Redirect the standard error of processes started meanwhile to a file."""
    target = os.open(
        log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
    )
    saved = os.dup(2)
    os.dup2(target, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(target)


def tasks(spark: SparkSession) -> int:
    """The number of tasks that a query should run in parallel."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _cores(master: str) -> int:
    here = os.cpu_count() or 1
    if master.startswith("local[") and master[6:-1].isdigit():
        return min(int(master[6:-1]), here)
    return min(here, 8)


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") or (f"{home}/bin/java" if home else None)
    if java is None or not os.path.exists(java):
        raise UserError(
            "Java is not installed: Spark needs Java 17 or newer"
            " (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = said.partition('"')[2].partition('"')[0].split(".")[0]
    if version.isdigit() and int(version) < 17:
        raise UserError(f"Java {version} is too old: Spark needs Java 17 or newer")
