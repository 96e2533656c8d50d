"""The applications that were submitted to a node's cluster: opened, followed and closed here.

One thread does that, one application after the other, so that none waits for the node's machines
and these for none. An application that fails here is closed, and opened again after a while; the
node and its other applications go on.

apps/NAME/         the state of an application here, as a node's own directory has it
apps/NAME/code/    the files with the user's functions
"""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from australis.deployment.check import check_name
from australis.deployment.cluster import Cluster
from australis.deployment.definition import Definition, cluster_for
from australis.deployment.deployed import Deployment
from australis.diagram import diagram_file
from australis.diagram.model import Diagram, Operator, Spark
from australis.kernel.errors import Stopped, UserError
from australis.runtime.ending import side_by_side
from australis.runtime.files import make_directory, write_private
from australis.runtime.load import seen_from_above
from australis.runtime.node.application import Application, NodeServices
from australis.runtime.node.driver import Driver
from australis.runtime.node.events import ERROR, WARNING
from australis.runtime.node.settings import Layout
from australis.runtime.node.wire import short
from australis.spark.functions import function_digests
from australis.streams.schema import parse_schema

FIRST_DELAY_S = 1.0
"""The first delay before an application that failed is opened again; it doubles each time."""
MAX_DELAY_S = 60.0
POLL_S = 0.2
CODE = "code"
DIRECTORY = "apps"
"""Where a node keeps the state of applications."""


@dataclass
class _Failed:
    """An application that failed here."""

    why: str
    delay_s: float
    due_s: float


class Applications:
    """The submitted applications of a node."""

    def __init__(
        self,
        node: NodeServices,
        cluster: Cluster,
        directory: Path,
        new_driver: Callable[[Callable[[BaseException], None]], Driver],
        find_definition: Callable[[str], Definition],
        max_connections: Callable[[], int],
    ) -> None:
        """Applications below a directory; `find_definition` may ask other nodes."""
        self._node = node
        self._cluster = cluster
        self._directory = directory
        self._new_driver = new_driver
        self._find_definition = find_definition
        self._max_connections = max_connections
        self._wanted: dict[str, Deployment] = {}
        """The newest deployment of each application."""
        self._news: queue.Queue[tuple[str, BaseException | None]] = queue.Queue()
        """The applications that are to be looked at, with the error of one that has failed."""
        self._failed: dict[str, _Failed] = {}
        self._opened_at: dict[str, float] = {}
        self._opened: set[str] = set()
        """Those that have been opened completely."""
        self.running: dict[str, Application] = {}
        self._thread = threading.Thread(target=self._run, name="applications", daemon=True)
        self._stopping = False

    def start(self) -> None:
        """Begin to open applications."""
        self._thread.start()

    def adopt(self, deployment: Deployment) -> None:
        """Follow a newer deployment of an application.

        Directories are called after it, so one whose name is none, which only a hostile node can
        tell of, is refused.
        """
        name = deployment.application
        try:
            check_name(name)
        except UserError as error:
            self._node.tell("refused", level=WARNING, kind="application", why=short(str(error)))
            return
        known = self._wanted.get(name)
        if known is None or deployment.version > known.version:
            self._wanted[name] = deployment
            self._news.put((name, None))

    def status(self) -> dict[str, dict[str, Any]]:
        """What this node knows of each application that runs in the cluster."""
        found = {}
        for name, deployment in list(self._wanted.items()):
            if deployment.withdrawn:
                continue
            one = self.running.get(name) if name in self._opened else None
            failed = self._failed.get(name)
            found[name] = {
                "version": deployment.version,
                "here": one is not None,
                "failed": failed.why if failed is not None and one is None else None,
            } | ({} if one is None else one.status())
            found[name]["deployment"] = msgspec.to_builtins(deployment)
        return found

    def look(self) -> None:
        """Look at who waits for whom."""
        for one in list(self.running.values()):
            one.look()

    # --- the thread that opens and closes them ------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            with suppress(queue.Empty):
                name, error = self._news.get(timeout=POLL_S)
                if error is None:
                    self._settle(name)
                elif name in self.running:  # else another error has closed it already
                    self._fails(name, error)
            now = time.monotonic()
            due = [n for n, f in self._failed.items() if f.due_s <= now and n not in self.running]
            for name in due:
                self._settle(name)

    def _settle(self, name: str) -> None:
        """Make what runs here what is wanted."""
        if self._stopping:
            return
        deployment, running = self._wanted[name], self.running.get(name)
        try:
            old = running is not None and running.deployment.definition != deployment.definition
            if running is not None and (deployment.withdrawn or old):
                self._close(name)
                running = None
            if deployment.withdrawn:
                self._failed.pop(name, None)
                shutil.rmtree(self._directory / name, ignore_errors=True)
            elif running is not None:
                running.driver.call(partial(running.follow_deployment, deployment))
            elif self._node.name in deployment.nodes:
                self._open(name, deployment)
        except BaseException as error:
            self._fails(name, error)

    def _open(self, name: str, deployment: Deployment) -> None:
        began = time.monotonic()
        definition = self._find_definition(deployment.definition)
        layout = Layout(self._directory / name, flat=False)
        self._refuse_other(layout.root, deployment.definition)
        diagram = read_diagram(definition, layout.root)
        driver = self._new_driver(partial(self._failed_later, name))
        one = Application(
            self._node,
            name,
            cluster_for(self._cluster, definition, deployment),
            diagram,
            deployment,
            layout,
            driver,
            partial(self._failed_later, name),
        )
        one.schemas.update({s: parse_schema(text) for s, text in definition.schemas.items()})
        self.running[name] = one
        self._opened_at[name] = began
        make_directory(layout.root)
        functions = function_digests(diagram, self._node.base)
        one.state.refuse_foreign()
        one.state.claim(diagram, functions, None)
        one.state.save_schemas(one.schemas)
        first = one.open(one.state.next_incarnation(), definition.began_us, self._max_connections())
        one.start_engines()
        driver.start(first)
        one.start()
        self._opened.add(name)
        self._node.tell(
            "application_opened",
            kind=name,
            application=name,
            version=deployment.version,
            machines=list(driver.node.hosts),
            seconds=round(time.monotonic() - began, 3),
        )

    def _refuse_other(self, root: Path, digest: str) -> None:
        """Remove the state of an application of that name that computed something else."""
        mark = root / "definition"
        if root.exists() and (not mark.exists() or mark.read_text() != digest):
            shutil.rmtree(root)
        if not root.exists():
            make_directory(root)
            write_private(mark, digest.encode())

    def _failed_later(self, name: str, error: BaseException) -> None:
        self._news.put((name, error))

    def _fails(self, name: str, error: BaseException) -> None:
        """Close an application that failed, and have it opened again after a while."""
        if self._stopping:
            return
        before = self._failed.get(name)
        healthy = time.monotonic() - self._opened_at.get(name, 0.0) > MAX_DELAY_S
        delay_s = FIRST_DELAY_S if before is None or healthy else 2 * before.delay_s
        delay_s = min(MAX_DELAY_S, delay_s)
        if name in self.running:
            level, again = ERROR, f"it is opened again in {delay_s:.0f} s"
            self._node.tell(
                "application_failed", level=level, kind=name, application=name,
                why=f"{error}; {again}",
            )  # fmt: skip
            self._close(name)
        else:
            self._node.tell(
                "application_waits", level=WARNING, kind=name, application=name, why=str(error)
            )
        self._failed[name] = _Failed(str(error), delay_s, time.monotonic() + delay_s)

    def _close(self, name: str) -> None:
        one = self.running.pop(name)
        self._opened.discard(name)
        self._node.network.remove(name)
        for steps in stops_of(one):
            for error in side_by_side(steps):
                self._node.tell("error", level=ERROR, why=f"while {name} was closed: {error}")
        self._node.tell("application_closed", kind=name, application=name)

    # --- stopping ---------------------------------------------------------------------------

    def stops(self) -> list[Callable[[], None]]:
        """What stops all applications, each by itself."""
        self._stopping = True
        return [partial(self._stop, name) for name in list(self.running)]

    def _stop(self, name: str) -> None:
        one = self.running.pop(name, None)
        if one is None:
            return
        errors = [error for steps in stops_of(one) for error in side_by_side(steps)]
        if errors:
            raise Stopped(f"'{name}' did not stop in order: {errors[0]}")


def stops_of(one: Application) -> Iterator[list[Callable[[], None]]]:
    """The steps that stop an application; those of one list may be taken side by side."""
    yield from one.stops()
    one.driver.stop()
    yield [one.router.close_inboxes]
    yield one.close_lanes()
    yield [one.close]


def read_diagram(definition: Definition, root: Path) -> Diagram:
    """The diagram of a definition, whose functions are in files below a directory."""
    diagram = diagram_file.load(definition.diagram, definition.file)
    files: dict[str, Path] = {}
    for name, code in definition.code.items():
        digest = hashlib.sha256(code).hexdigest()[:8]
        path = files[name] = (root / CODE / f"{Path(name).stem}-{digest}.py").resolve()
        make_directory(path.parent)
        write_private(path, code)

    def function(one: Operator) -> Operator:
        file, colon, call = one.function.rpartition(":") if isinstance(one, Spark) else ("", "", "")
        if file not in files:
            return one
        assert isinstance(one, Spark)
        return replace(one, function=f"{files[file]}{colon}{call}")

    diagram = replace(diagram, operators=tuple(map(function, diagram.operators)))
    return seen_from_above(diagram, Path(definition.folder))
