"""The checks that a run, a node and `australis check` make before they start anything."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from australis.diagram.model import Diagram
from australis.runtime.sinks import check_options as check_sink
from australis.runtime.sinks import refuse_shared_files
from australis.runtime.sources import check_options as check_source


def check_parts(diagram: Diagram, base: Path, here: Collection[str] | None = None) -> None:
    """Raise a `UserError` for a mistake in a source or a sink.

    The files of the sources that are `here` are checked, those of all sources if it is None.
    """
    for source in diagram.sources:
        check_source(source, base if here is None or source.name in here else None)
    for sink in diagram.sinks:
        check_sink(sink)
    refuse_shared_files(diagram, base)
