"""Cluster files: YAML that says which nodes there are and what runs where.

Every mistake is told with the file and line where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, ip_address
from typing import Any

from australis.catalog.check import check_alone
from australis.catalog.cluster import ClientPlace, Cluster, NodePlace, Tls
from australis.diagram.parts import PlaceOf, Settings
from australis.diagram.yaml_lines import not_too_deep, read_sections, read_settings
from australis.kernel.durations import parse_duration
from australis.kernel.errors import Place, UserError
from australis.streams.buckets import END_OF_STREAM_US

_SECTIONS = (
    *("cluster", "diagram", "state", "max_delay", "hop", "heartbeat", "epoch", "nodes"),
    *("participants", "replicas", "sources", "clients", "tls", "faults"),
)
_NEEDED = ("cluster", "diagram", "nodes", "replicas", "sources")
LEAST_MB = 512
"""Spark does not start with less."""
_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,9})")


def load(text: str, file: str) -> Cluster:
    """Read a cluster file and check what can be checked without its diagram."""
    with not_too_deep(file):
        cluster = _read(text, file)
    check_alone(cluster)
    return cluster


def _read(text: str, file: str) -> Cluster:
    sections = read_sections(text, file, "a cluster", _SECTIONS, _NEEDED)
    name = sections.word("cluster")
    nodes = sections.parts("nodes", _node)
    owners = tuple(dict.fromkeys(n.owner for n in nodes if n.owner is not None))
    listed = sections.parts("participants", _participant)
    return Cluster(
        name=name,
        diagram_path=sections.value("diagram", "", _text),
        state=sections.value("state", f".australis/{name}", _text),
        max_delay_us=sections.value("max_delay", Cluster.max_delay_us, _duration),
        hop_us=sections.value("hop", None, _duration),
        heartbeat_us=sections.value("heartbeat", Cluster.heartbeat_us, _duration),
        epoch_us=sections.value("epoch", None, _time),
        nodes={node.name: node for node in nodes},
        replicas=sections.values("replicas", _nodes),
        sources=sections.values("sources", _text),
        clients={client.name: client for client in sections.parts("clients", _client)},
        participants=listed or owners,
        tls=sections.part("tls", _tls),
        faults=sections.value("faults", "refused", _one_of("allowed", "refused")) == "allowed",
        place=Place(file),
        places=sections.places,
    )


# --- values ------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"should be text, not {value!r}")
    return value


def _megabytes(value: Any) -> int:
    """So much memory, as Spark writes it."""
    found = re.fullmatch(r"(\d{1,6})([mg])", str(value).lower())
    size = int(found[1]) * (1024 if found[2] == "g" else 1) if found else 0
    if size < LEAST_MB:
        raise UserError(f"should be {LEAST_MB}m or more, such as 1g, not {value!r}")
    return size


def _nodes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise UserError(f"should be a list of nodes, not {value!r}")
    return tuple(_text(v) for v in value)


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            known = " or ".join(f"'{word}'" for word in words)
            raise UserError(f"should be {known}, not {value!r}")
        return str(value)

    return read


def _true_or_false(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"should be true or false, not {value!r}")
    return value


def _port(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise UserError(f"should be a port from 1 to 65535, not {value!r}")
    return value


def _duration(value: Any) -> int:
    duration = parse_duration(value)
    if duration < 1:
        raise UserError("should be longer than nothing")
    return duration


def _time(value: Any) -> int:
    """Microseconds since 1970; UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(_text(value))
    except (UserError, ValueError):
        raise UserError(f"should be a time such as 2026-01-01T00:00:00Z, not {value!r}") from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    time_us = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if not 0 < time_us < END_OF_STREAM_US:
        raise UserError(f"should be a time after 1970 that a stream can carry, not {value!r}")
    return time_us


def _address(value: Any) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(_text(value))
    if not found:
        raise UserError(f"is not host:port: {value!r}")
    bracketed, host, port = found.groups()
    if not 1 <= int(port) <= 65535:
        raise UserError(f"has a port that is not one of 1 to 65535: {value!r}")
    try:
        address = IPv6Address(bracketed) if bracketed else ip_address(host)
    except ValueError:
        if bracketed:
            raise UserError(f"is not host:port: {value!r}") from None
        return host.lower(), int(port)
    if address.is_unspecified:
        raise UserError(f"is everywhere, so other nodes could not find it: {value!r}")
    return str(address), int(port)


# --- parts -------------------------------------------------------------------


def _node(name: str, settings: Settings, place_of: PlaceOf) -> NodePlace:
    readers = {
        "address": _address,
        "spark": _text,
        "engine": _one_of("spark", "reference"),
        "memory": _megabytes,
        "owner": _text,
        "metrics": _port,
        "trace": _true_or_false,
    }
    taken = read_settings(name, settings, place_of, readers, needed=["address"])
    host, port = taken.pop("address")
    if "spark" in taken:
        taken["master"] = taken.pop("spark")
    if "memory" in taken:
        taken["memory_mb"] = taken.pop("memory")
    return NodePlace(name, host, port, **taken)


def _participant(name: str, settings: Settings, place_of: PlaceOf) -> str:
    read_settings(name, settings, place_of, {})
    return name


def _client(name: str, settings: Settings, place_of: PlaceOf) -> ClientPlace:
    taken = read_settings(name, settings, place_of, {"stream": _text}, needed=["stream"])
    return ClientPlace(name, **taken)


def _tls(name: str, settings: Settings, place_of: PlaceOf) -> Tls:
    readers = {"ca": _text, "certificates": _text}
    return Tls(**read_settings(name, settings, place_of, readers, needed=list(readers)))
