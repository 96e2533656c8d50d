"""Diagrams as Python source: the code that builds an equal one."""

from __future__ import annotations

import keyword
import re
from typing import Any

from australis.diagram.model import Diagram, Operator
from australis.diagram.parts import cut_settings, operator_settings, sink_settings, source_settings
from australis.kernel.durations import format_duration
from australis.streams.buckets import DEFAULT_BUCKET_US


def to_python(diagram: Diagram) -> str:
    """A module that defines `diagram`."""
    variables = _Variables(diagram)
    head = [repr(diagram.name)]
    if diagram.bucket_us != DEFAULT_BUCKET_US:
        head.append(f"bucket={format_duration(diagram.bucket_us)!r}")
    if diagram.cut != "none":
        head.append(f"fragments={cut_settings(diagram)!r}")
    lines = ["import australis as au", "", f"d = au.diagram({', '.join(head)})", ""]
    for source in diagram.sources:
        settings = _keywords(source_settings(source))
        lines.append(f"{variables.of(source.name)} = d.source({source.name!r}, {settings})")
    lines.append("")
    lines.extend(_operator(operator, variables) for operator in diagram.in_order)
    lines.append("")
    if diagram.outputs:
        lines.append(f"d.output({', '.join(variables.of(s) for s in diagram.outputs)})")
    for sink in diagram.sinks:
        where = {k: v for k, v in sink_settings(sink).items() if k != "from"}
        stream = variables.of(sink.stream)
        lines.append(f"d.sink({sink.name!r}, {stream}, {_keywords(where)})")
    lines += ["", "diagram = d.done()", ""]
    return "\n".join(lines)


def _operator(operator: Operator, variables: _Variables) -> str:
    settings = operator_settings(operator)
    del settings[operator.kind]
    inputs = ", ".join(variables.of(stream) for stream in operator.inputs)
    arguments = f"{operator.name!r}, {inputs}"
    if settings:
        arguments += f", {_keywords(settings)}"
    return f"{variables.own(operator.name)} = d.{operator.kind}({arguments})"


def _keywords(settings: dict[str, Any]) -> str:
    plain = all(key.isidentifier() and not keyword.iskeyword(key) for key in settings)
    if plain:
        return ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"**{settings!r}"


class _Variables:
    """Python names for streams."""

    def __init__(self, diagram: Diagram) -> None:
        self._names: dict[str, str] = {}
        for part in (*diagram.sources, *diagram.operators):
            name = re.sub(r"\W", "_", part.name)
            while name in self._names.values() or keyword.iskeyword(name) or name in ("d", "au"):
                name += "_"
            self._names[part.name] = name

    def own(self, part: str) -> str:
        return self._names[part]

    def of(self, stream: str) -> str:
        part, _, branch = stream.partition(".")
        return f"{self._names[part]}[{branch!r}]" if branch else self._names[part]
