"""Following an output stream: the threads that feed sinks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from australis.kernel.ids import unpack_id
from australis.live.datapath import DataPath, SharedLog
from australis.live.sinks import SinkWriter
from australis.streams.buckets import END_OF_STREAM_US


class SinkFollower:
    """Writes the stable tuples of one stream to one sink, from where the sink left off."""

    def __init__(
        self,
        name: str,
        stream: str,
        writer: SinkWriter,
        datapath: DataPath,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.stream = stream
        self.rows = 0
        self.done = threading.Event()
        self._writer = writer
        self._datapath = datapath
        self._log: SharedLog = datapath.logs[stream]
        self._on_error = on_error
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sink {name}", daemon=True)

    @property
    def written_to(self) -> int:
        """The last bucket whose tuples need not be read again."""
        return unpack_id(self._writer.position)[0] - 1

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is there, then end."""
        self._stopping.set()
        self._datapath.appended(self.stream)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self._on_error(error)
        finally:
            self.done.set()

    def _follow(self) -> None:
        last_id = self._writer.position
        while True:
            boundary, stopping = self._log.boundary_us, self._stopping.is_set()
            for batch in self._log.read_after(last_id, self._log.buckets.closed_by(boundary)):
                if batch.num_rows:
                    self._writer.write(batch)
                    self.rows += batch.num_rows
                    last_id = batch.column("_id")[-1].as_py()
            self._writer.flush()
            if boundary >= END_OF_STREAM_US or stopping:
                self._writer.close()
                return
            self._await_more(boundary)

    def _await_more(self, boundary_us: int) -> None:
        with self._datapath.changed:
            self._datapath.changed.wait_for(
                lambda: self._log.boundary_us > boundary_us or self._stopping.is_set(), timeout=1
            )
