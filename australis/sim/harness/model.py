"""The interface between a protocol and the harness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from australis.kernel.errors import UserError
from australis.kernel.names import listed, meant
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.sim.faults import Planned
from australis.sim.world import World

if TYPE_CHECKING:
    from australis.sim.harness.story import Line

CRASH, TIMEOUT = "crash", "timeout"
HARNESS_CHECKERS = {
    CRASH: "No machine raises an exception.",
    TIMEOUT: "A run comes to an end.",
}
"""The checkers that every model has."""


class Scenario(Protocol):
    """Everything that a run depends on."""

    @property
    def seed(self) -> int:
        """The seed of its random streams."""
        ...


S = TypeVar("S", bound=Scenario)


@dataclass(frozen=True)
class Violation:
    """A broken promise."""

    checker: str
    said: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.said}"

    @property
    def kind(self) -> str:
        """The checker; for an exception also the exception's type."""
        return f"{CRASH} {self.said.partition(':')[0]}" if self.checker == CRASH else self.checker


@dataclass(frozen=True)
class SeedResult:
    """The result of a finished run: plain data that crosses processes."""

    seed: int
    violations: tuple[Violation, ...]
    counts: Counter[str]
    """The number of events by kind."""
    planned: int = 0
    """The length of the run's schedule."""


class Simulation(Protocol):
    """A scenario while it runs."""

    world: World
    counts: Counter[str]

    def run(self) -> Sequence[Violation]:
        """Run to the end or to the first broken promise."""
        ...


@dataclass(frozen=True)
class Preset(Generic[S]):
    """A way to draw scenarios."""

    says: str
    draw: Callable[[int, SeedTree], S]


@dataclass(frozen=True)
class Variant(Generic[S]):
    """One way to break the protocol, and the checkers that must notice it."""

    name: str
    says: str
    apply: Callable[[S], S]
    caught_by: tuple[str, ...]
    """The checkers that must each report the variant."""
    seeds: range = field(default=range(100))
    """The seeds within which they must report it."""
    preset: str = ""
    """The preset of these seeds; empty stands for the model's first one."""


class Model(ABC, Generic[S]):
    """A protocol in the simulated world; a model has no state of its own."""

    name: str
    presets: Mapping[str, Preset[S]]
    """The presets by name; the first one is the default."""
    variants: Mapping[str, Variant[S]]
    checkers: Mapping[str, str]
    """Each promise in one sentence."""
    coverage: Mapping[str, Mapping[str, str]]
    """The events that many seeds should cover: groups of labels, with their names in `counts`."""
    beginnings: tuple[str, ...] = ()
    """The prefixes of trace entries at which a causal chain ends."""

    @abstractmethod
    def build(self, scenario: S, trace: Trace | None = None) -> Simulation:
        """The simulation of a scenario, ready to run."""

    def draw(self, preset: str, seed: int) -> S:
        """The scenario of a seed."""
        preset = preset or self.default
        if preset not in self.presets:
            known = listed(self.presets, preset)
            raise UserError(f"is not a preset (known: {known})", name=preset)
        return self.presets[preset].draw(seed, SeedTree(seed).under(preset))

    @property
    def default(self) -> str:
        """The name of the default preset."""
        return next(iter(self.presets))

    # --- schedules --------------------------------------------------------------------------

    def schedule(self, scenario: S) -> tuple[Planned, ...]:
        """The schedule of a scenario, whose entries shrinking may drop, shorten or move."""
        found: tuple[Planned, ...] = scenario.schedule  # type: ignore[attr-defined]
        return found

    def with_schedule(self, scenario: S, schedule: tuple[Planned, ...]) -> S:
        """The same scenario with another schedule."""
        return replace(scenario, schedule=schedule)  # type: ignore[type-var]

    # --- story ------------------------------------------------------------------------------

    def title(self, scenario: S) -> str:
        """What was drawn, as a short title."""
        return ""

    @abstractmethod
    def drawn(self, scenario: S) -> Mapping[str, Mapping[str, str]]:
        """What was drawn, section by section."""

    def build_watched(self, scenario: S, trace: Trace) -> Simulation:
        """The same simulation as `build` gives, with the instruments that its story needs."""
        return self.build(scenario, trace)

    @abstractmethod
    def lines(self, simulation: Any, trace: Trace) -> Iterable[Line]:
        """The story of a finished run, without its schedule."""

    def summary(self, counts: Counter[str]) -> str:
        """A short summary of one run or many."""
        groups = self.coverage.values()
        return ", ".join(f"{counts[key]:,} {label}" for g in groups for label, key in g.items())

    def measured(self, simulation: Any) -> Mapping[str, Any]:
        """Further figures of a run, for programs."""
        return {}

    def broken_by(self, simulation: Any, violation: Violation) -> int | None:
        """The trace entry during which a promise was broken, if it was broken at one moment."""
        return None


@dataclass(frozen=True)
class Setup(Generic[S]):
    """The scenarios to run: those of a model and a preset, possibly of a broken variant."""

    model: Model[S]
    preset: str = ""
    variant: str | None = None

    def __post_init__(self) -> None:
        variants = self.model.variants
        if self.variant is not None and self.variant not in variants:
            hint = f"{meant(self.variant, variants)}; 'list' shows all {len(variants)}"
            raise UserError(f"is not a variant{hint}", name=self.variant)
        if not self.preset:
            object.__setattr__(self, "preset", self.model.default)
        self.scenario(0)  # `draw` refuses unknown presets

    def scenario(self, seed: int) -> S:
        """The scenario of a seed."""
        drawn = self.model.draw(self.preset, seed)
        return drawn if self.variant is None else self.model.variants[self.variant].apply(drawn)


@dataclass
class Tally(Generic[S]):
    """The sums over many runs."""

    model: Model[S]
    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: SeedResult) -> None:
        """Add one run."""
        self.seeds += 1
        self.counts.update(result.counts)

    @property
    def coverage(self) -> dict[str, dict[str, int]]:
        """The count of each event that should be covered."""
        groups = self.model.coverage.items()
        return {g: {label: self.counts[key] for label, key in keys.items()} for g, keys in groups}

    def rare(self, fewer_than: int) -> dict[str, int]:
        """The events that were hardly covered, by their names in `counts`."""
        keys = (key for keys in self.model.coverage.values() for key in keys.values())
        return {key: self.counts[key] for key in keys if self.counts[key] < fewer_than}
