"""Peers files: YAML that describes operators, the peers that offer them, and the applications.

    operators:
      Filter: {cost: 200 ms}
      Encryption.AES.256: {cost: 700 ms}
    peers:
      p1: {offers: [Filter, Encryption.AES.256], speed: 1.2, others: 2}
      p2: {offers: [Encryption.AES.256]}
    applications:
      backup: {operators: [Filter, Encryption.AES.256], rate: 0.4}
    hotspots: {overload: 2, imbalance: 0.2, minutes: 1, levels: 5, overlap: 0.2}

`cost` is that of one tuple on a processor of speed 1, `rate` is in tuples per second, `others` is
the number of other users' processes at the peer.
"""

from __future__ import annotations

from math import inf
from typing import Annotated

from msgspec import Meta, field

from australis.kernel.errors import UserError
from australis.protocols.hotspots.criteria import Thresholds
from australis.protocols.hotspots.events import HotSpotOptions
from australis.protocols.hotspots.levels import even_levels
from australis.sim.hotspots.plan import ApplicationPlan, PeerPlan, PeersPlan
from australis.yamlfile.document import Document, parse
from australis.yamlfile.schema import Section, Settings, arguments, read
from australis.yamlfile.values import Count, Duration, Name, Number, Positive

MAX_LEVELS = 1_000
Operators = Annotated[tuple[Name, ...], Meta(min_length=1, description="a list of operators")]
Interval = Annotated[
    tuple[Number, ...], Meta(min_length=1, max_length=2, description="[FROM, TO] or [FROM]")
]
LevelSettings = Annotated[
    Annotated[int, Meta(ge=2, le=MAX_LEVELS)] | tuple[Interval, ...],
    Meta(description=f"a number from 2 to {MAX_LEVELS:,} or a list of [FROM, TO]"),
]
"""The number of even levels, or each level as [FROM, TO], the highest as [FROM]."""


class OperatorSettings(Settings, frozen=True):
    """An operator that peers may offer."""

    cost: Duration


class PeerSettings(Settings, frozen=True):
    """One peer."""

    offers: Operators
    speed: Positive = PeerPlan.speed
    others: Number = PeerPlan.others


class ApplicationSettings(Settings, frozen=True):
    """One application."""

    operators: Operators
    per_s: Positive = field(name="rate")


class HotSpotSettings(Settings, frozen=True):
    """When peers relieve each other."""

    overload: Positive = Thresholds.overload
    imbalance: Number = Thresholds.imbalance
    minutes: Count = Thresholds.minutes
    levels: LevelSettings = 5
    overlap: Number | None = None


class PeersFile(Settings, frozen=True):
    """The sections of a peers file."""

    operators: Section[OperatorSettings]
    peers: Section[PeerSettings]
    applications: Section[ApplicationSettings]
    hotspots: HotSpotSettings = HotSpotSettings()


def load(text: str, file: str) -> PeersPlan:
    """Read a peers file and check it."""
    document = parse(text, file)
    said = read(document, PeersFile, "a peers file")
    options = _options(document, said.hotspots)
    with document.blaming_named("operators", "peers", "applications"):
        return PeersPlan(
            {name: one.cost.s for name, one in said.operators.items()},
            {name: PeerPlan(**arguments(one)) for name, one in said.peers.items()},
            {name: ApplicationPlan(**arguments(one)) for name, one in said.applications.items()},
            options,
        )


def _options(document: Document, said: HotSpotSettings) -> HotSpotOptions:
    with document.blaming_named("hotspots"):
        if isinstance(said.levels, int):
            levels = even_levels(said.levels, 0.2 if said.overlap is None else said.overlap)
        elif said.overlap is not None:
            raise UserError("is for a number of levels; these say themselves how", name="overlap")
        else:
            levels = tuple((low, high[0] if high else inf) for low, *high in said.levels)
        thresholds = Thresholds(said.overload, said.imbalance, said.minutes)
        return HotSpotOptions(thresholds=thresholds, levels=levels)
