"""Scenario files: YAML, every mistake told with the file and line where it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from australis.catalog.cluster import ClientPlace, Cluster, NodePlace
from australis.diagram import text as diagram_text
from australis.diagram.model import Diagram
from australis.diagram.parts import PlaceOf, Settings
from australis.diagram.yaml_lines import Sections, not_too_deep, read_sections
from australis.kernel.durations import parse_duration
from australis.kernel.errors import Place, UserError
from australis.live.load import load as load_diagram
from australis.scenarios.check import check
from australis.scenarios.model import CLIENT, Expected, Fault, FaultKind, Scenario

_SECTIONS = (
    *("scenario", "says", "diagram", "replicas", "sources", "reads"),
    *("max_delay", "hop", "heartbeat", "lasts", "faults", "expect"),
)
_NEEDED = ("scenario", "says", "diagram", "replicas", "sources", "lasts", "expect")
_WORDS = {"stable": ("equal",), "tentative": ("none", "some"), "corrected": ("all",)}
_LIMITS = ("silence", "within")

T = TypeVar("T")


def load(path: Path) -> Scenario:
    """The scenario in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError("there is no such file", place=Place(str(path))) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read: {error}", place=Place(str(path))) from None
    return read(text, str(path))


def read(text: str, file: str) -> Scenario:
    """A scenario from its text; `file` says where that stands, and its diagram beside it."""
    with not_too_deep(file):
        scenario = _read(text, file)
    check(scenario)
    return scenario


def _read(text: str, file: str) -> Scenario:
    sections = read_sections(text, file, "a scenario", _SECTIONS, _NEEDED)
    diagram = _diagram(sections, text)
    faults = [fault for faults in _items(sections, "faults", _faults) for fault in faults]
    expected = sections.part("expect", _expected)
    assert expected is not None, "it is needed"
    return Scenario(
        name=sections.word("scenario"),
        says=sections.value("says", "", _text),
        diagram=diagram,
        cluster=_cluster(sections, diagram),
        lasts_us=sections.value("lasts", 0, _duration),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        expected=expected,
        file=file,
    )


def _diagram(sections: Sections, text: str) -> Diagram:
    """The diagram: a file beside this one, or written right here."""
    _, node = sections.nodes["diagram"]
    if isinstance(node, yaml.MappingNode):
        begin, end = node.start_mark, node.end_mark
        # As far down and to the right as it stands in the file, so that its lines stay true.
        before = "\n" * begin.line + " " * begin.column
        return diagram_text.load(before + text[begin.index : end.index], sections.file)
    return load_diagram(Path(sections.file).parent / sections.value("diagram", "", _text))


def _cluster(sections: Sections, diagram: Diagram) -> Cluster:
    replicas = sections.values("replicas", _names)
    sources = sections.values("sources", _text)
    names = dict.fromkeys([*(n for nodes in replicas.values() for n in nodes), *sources.values()])
    places = sections.places
    stream = sections.value("reads", None, _text) or _only_result(sections, diagram)
    return Cluster(
        name=sections.word("scenario"),
        diagram_path="diagram.yaml",
        state="state",
        max_delay_us=sections.value("max_delay", Cluster.max_delay_us, _duration),
        hop_us=sections.value("hop", None, _duration),
        heartbeat_us=sections.value("heartbeat", Cluster.heartbeat_us, _duration),
        nodes={
            n: NodePlace(n, "127.0.0.1", port, engine="reference")
            for port, n in enumerate(names, 1)
        },
        replicas=replicas,
        sources=sources,
        clients={CLIENT: ClientPlace(CLIENT, stream)},
        faults=True,
        place=Place(sections.file),
        places=places
        | {"cluster": places["scenario"], "nodes": places["replicas"]}
        | {"clients": places.get("reads", places["diagram"])},
    )


def _only_result(sections: Sections, diagram: Diagram) -> str:
    if len(diagram.results) != 1:
        raise UserError(
            f"has several results ({', '.join(diagram.results)}): say which one the client 'reads'",
            name=diagram.name,
            place=sections.places["diagram"],
        )
    return diagram.results[0]


def _items(
    sections: Sections, name: str, make: Callable[[str, Settings, PlaceOf], T]
) -> tuple[T, ...]:
    """What is made of the settings of each item of a list."""
    if name not in sections:
        return ()
    line, node = sections.nodes[name]
    if not isinstance(node, yaml.SequenceNode):
        raise UserError("should be a list", name=name, place=Place(sections.file, line))
    items = {
        f"{name.removesuffix('s')} {i}": (item.start_mark.line + 1, item)
        for i, item in enumerate(node.value, 1)
    }
    listed = Sections(sections.file, items)
    made = (listed.part(item, make) for item in items)
    return tuple(one for one in made if one is not None)


# --- parts -------------------------------------------------------------------


class _Part:
    """The settings of one part, each taken once; what is left over is a mistake."""

    def __init__(self, name: str, settings: Settings, place_of: PlaceOf) -> None:
        self._name = name
        self._left = dict(settings)
        self.place_of = place_of

    def wrong(self, key: str | None, sentence: str) -> UserError:
        """A mistake in a setting, or in the whole."""
        return UserError(sentence, name=self._name, place=self.place_of(key))

    def kind(self, kinds: Mapping[str, Any]) -> str:
        """The one setting that says what it is."""
        found = [key for key in self._left if key in kinds]
        if len(found) != 1:
            said = "does not say" if not found else f"says more than once ({', '.join(found)})"
            raise self.wrong(None, f"{said} what happens (one of: {', '.join(kinds)})")
        return found[0]

    def take(self, key: str, read: Callable[[Any], T], default: T | None = None) -> T:
        """A setting as `read` reads it; needed if it has no default."""
        if key not in self._left:
            if default is None:
                raise self.wrong(None, f"needs '{key}'")
            return default
        try:
            return read(self._left.pop(key))
        except UserError as error:
            raise self.wrong(key, f"has a setting '{key}' that {error.sentence}") from None

    def finish(self, *known: str) -> None:
        """Complain about a setting that was not taken."""
        for key in self._left:
            raise self.wrong(key, f"has an unknown setting '{key}' (known: {', '.join(known)})")


def _faults(name: str, settings: Settings, place_of: PlaceOf) -> tuple[Fault, ...]:
    """What one entry of the list says: a fault, or the same one several times."""
    part = _Part(name, settings, place_of)
    kind = FaultKind(part.kind({kind.value: None for kind in FaultKind}))
    known = [kind.value, "at", "for", "times", "every"]
    nodes = part.take(kind.value, _names)
    at, lasts = part.take("at", parse_duration), part.take("for", _duration)
    times = part.take("times", _count, 1)
    every = part.take("every", _duration) if times > 1 else 0
    other, one_way = "", False
    if kind is FaultKind.CUT:
        known += ["from", "one_way"]
        other, one_way = part.take("from", _text), part.take("one_way", _flag, False)
    part.finish(*known)
    if times > 1 and every <= lasts:
        raise part.wrong("every", "begins again ('every') before it is over ('for')")
    return tuple(
        Fault(kind, nodes, at + i * every, lasts, other, one_way, place_of(None))
        for i in range(times)
    )


def _expected(name: str, settings: Settings, place_of: PlaceOf) -> Expected:
    part = _Part(name, settings, place_of)
    words = {key: part.take(key, _one_of(*_WORDS[key])) for key in settings if key in _WORDS}
    limits = {key: part.take(key, _duration) for key in settings if key in _LIMITS}
    part.finish(*_WORDS, *_LIMITS)
    return Expected(words, limits.get("silence"), limits.get("within"))


# --- values ------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"should be text, not {value!r}")
    return value


def _names(value: Any) -> tuple[str, ...]:
    """One name, or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise UserError(f"should be a node or a list of nodes, not {value!r}")
    return tuple(_text(name) for name in names)


def _one_of(*words: str) -> Callable[[Any], str]:
    def read_word(value: Any) -> str:
        if value not in words:
            known = " or ".join(f"'{word}'" for word in words)
            raise UserError(f"should be {known}, not {value!r}")
        return str(value)

    return read_word


def _duration(value: Any) -> int:
    duration = parse_duration(value)
    if duration < 1:
        raise UserError("should be longer than nothing")
    return duration


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"should be a whole number of at least 1, not {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"should be true or false, not {value!r}")
    return value
