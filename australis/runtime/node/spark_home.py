"""The Spark session of a node: opened when it is first needed, and kept small."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from australis.runtime.files import replace_file
from australis.runtime.flight_port import FACTORY
from australis.runtime.node.spark_work import Query
from australis.runtime.processes import identity
from australis.runtime.state import StateDirectory
from australis.spark.session import (
    LOOKUP,
    NEXT,
    READ_PLANNERS,
    WRITE_PLANNERS,
    SparkSession,
    end_processes,
    has_process,
    open_session,
    our_settings,
    process_id,
)

_PLANNING = threading.RLock()


class SparkHome:
    """One session for all lanes of a node: its own, or one that a program has lent."""

    def __init__(
        self,
        state: StateDirectory,
        master: str,
        name: str,
        settings: dict[str, str],
        host: str,
        lent: SparkSession | None = None,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self.pid: int | None = None
        """The process id of the JVM, if it is the node's own and runs."""
        self._state = state
        self._master = master
        self._name = name
        self._settings = settings
        self.host = host
        self._lent = lent
        self._on_step = on_step
        self._session: SparkSession | None = lent
        self._opening = threading.Lock()
        self._planners = [READ_PLANNERS, WRITE_PLANNERS]

    def session(self) -> SparkSession:
        """The session, started when it is first needed."""
        with self._opening:
            if self._session is None:
                self._on_step("starting Spark")
                self._session = open_session(
                    self._master,
                    self._name,
                    settings=self._settings,
                    log=self._state.spark_log,
                    host=self.host,
                    preload=FACTORY.partition(":")[0],
                )
                self.pid = process_id(self._session)
                replace_file(self._state.spark_pid, identity(self.pid).encode())
            return self._session

    @contextmanager
    def settled(self) -> Iterator[None]:
        """While a query is planned and started: a lent session has the settings that it needs.

        One at a time in a process: a user's function is planned with `withWatermark` replaced.
        """
        with _PLANNING, nullcontext() if self._lent is None else our_settings(self._lent):
            yield

    def lanes_started(self) -> None:
        """End the Spark processes that only looked up data sources."""
        if self._lent is None and self._session is not None:
            end_processes(self._session, LOOKUP)

    def lane_restarted(self) -> None:
        """Note that Spark needs its planner processes again."""
        self._planners.clear()

    def trim(self, queries: list[Query]) -> None:
        """Once every query reads and writes, end the planner processes, which only hold memory."""
        if self._lent is not None or self._session is None or not self._planners or not queries:
            return
        planners = self._planners[0]
        reading = planners is READ_PLANNERS
        done = all(q.has_read if reading else q.has_written for q in queries)
        # Of several queries, it is not known for which of them Spark has started what comes next.
        if done or (len(queries) == 1 and has_process(self._session, NEXT[planners])):
            end_processes(self._session, self._planners.pop(0))

    def close(self) -> None:
        """Stop Spark, unless it was lent."""
        if self._session is None or self._lent is not None:
            return
        with suppress(Exception):  # a JVM that does not stop stays named: it is ended by its id
            self._session.stop()
            self._state.spark_pid.unlink(missing_ok=True)


class SparkBranch:
    """A session of its own for one application, on the Spark of a node."""

    def __init__(self, home: SparkHome) -> None:
        self.host = home.host
        self.settled = home.settled
        self.lane_restarted = home.lane_restarted
        self._home = home
        self._session: SparkSession | None = None
        self._opening = threading.Lock()

    def session(self) -> SparkSession:
        """The session: queries of two applications may have the same names."""
        with self._opening:
            if self._session is None:
                self._session = self._home.session().newSession()
            return self._session
