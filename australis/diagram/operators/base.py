"""The interface of all operators, and the table of their kinds.

A kind of operator is a class that is decorated with `operator`:

>>> from australis.diagram.settings import INTEGER
>>> @operator
... class Every(Operator):
...     kind = "every"
...     nth: int = setting(INTEGER)
>>> every = Every(name="some", inputs=("readings",), nth=3)
>>> every.settings(), every.summary(), every.stateful, every.reach_us
({'every': 'readings', 'nth': 3}, 'nth 3', False, 0)
>>> del OPERATORS["every"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeVar, dataclass_transform

from australis.diagram.part import Part
from australis.diagram.settings import (
    ONE_STREAM,
    Pairs,
    Setting,
    Settings,
    Streams,
    Wrong,
    setting,
    settings_of,
)

O = TypeVar("O", bound="Operator")  # noqa: E741


class EventTime(Enum):
    """What Spark can derive about the `_stime` of a stream within one query."""

    LOGGED = "as read from a log"
    WINDOW = "the end of a window"
    COMPUTED = "computed: no stateful operator may follow"


@dataclass(frozen=True, kw_only=True)
class Operator(Part):
    """A box of the diagram: input streams in, output streams out.

    The defaults are those of an operator that treats each tuple by itself; one that is `stateful`
    is assumed to keep its state for ever unless it bounds the reach of its state.
    """

    kind: ClassVar[str]
    takes: ClassVar[Streams] = ONE_STREAM
    """The number of its inputs."""
    stateful: ClassVar[bool] = False
    """Whether an output tuple depends on more than one input tuple."""
    also_known: ClassVar[str] = ""
    """The part of an error message that names further settings, if settings may be written
    differently.
    """
    inputs: tuple[str, ...]

    # --- inputs and outputs --------------------------------------------------

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the streams it produces."""
        return (self.name,)

    def expressions(self) -> Iterator[str]:
        """The Spark SQL expressions the user wrote for it."""
        for one in settings_of(type(self)):
            yield from one.form.expressions(getattr(self, one.field))

    # --- properties used by other packages -----------------------------------

    @property
    def blocking_inputs(self) -> tuple[str, ...]:
        """The inputs without which it has no output, even if the others continue."""
        return ()

    @property
    def emits_on_watermark(self) -> bool:
        """Whether an output tuple may come one micro-batch after its last input."""
        return False

    @property
    def counts_tuples(self) -> bool:
        """Whether its windows are counted in tuples, however much time they span."""
        return False

    @property
    def reads_ids(self) -> bool:
        """Whether its output depends on the order of tuples within one `_stime`."""
        return self.counts_tuples

    @property
    def reach_us(self) -> int | None:
        """How far back its state reaches; None if a tuple may matter for ever."""
        return None if self.stateful else 0

    @property
    def accepts(self) -> frozenset[EventTime]:
        """The event times it accepts; an input with another one is read from a log."""
        if self.stateful:
            return frozenset({EventTime.LOGGED, EventTime.WINDOW})
        return frozenset(EventTime)

    def event_time(self, inputs: Sequence[EventTime]) -> EventTime:
        """The event time of its outputs, from those of its inputs."""
        if self.stateful:
            return EventTime.COMPUTED
        if len(inputs) == 1:
            return inputs[0]
        logged = all(time is EventTime.LOGGED for time in inputs)
        return EventTime.LOGGED if logged else EventTime.COMPUTED

    # --- written form --------------------------------------------------------

    @classmethod
    def known_settings(cls) -> tuple[Setting, ...]:
        """Its settings beside the inputs."""
        return settings_of(cls)

    @classmethod
    def written_as(cls, settings: Settings) -> type[Operator]:
        """The class of an operator written with this kind and these settings."""
        return cls

    @classmethod
    def made_of(cls, values: Mapping[str, Any]) -> Operator:
        """The operator with these values of its fields."""
        return cls(**values)

    def verify(self, wrong: Wrong) -> None:
        """Raise an error for settings that are wrong beyond the form of each."""

    def settings(self) -> dict[str, Any]:
        """The settings that make this operator: its kind with its inputs, then its own."""
        settings: dict[str, Any] = {self.kind: self.takes.write(self.inputs)}
        for one in self.known_settings():
            value = getattr(self, one.field)
            if value != one.default:
                settings |= one.form.put(one.key, value)
        return settings

    # --- description ---------------------------------------------------------

    def summary(self) -> str:
        """One short line that describes the operator."""
        own = list(self.settings().items())[1:]
        return ", ".join(f"{key} {_plain(value)}" for key, value in own)

    def details(self) -> list[str]:
        """Every expression the user wrote, one a line."""
        return [self.summary()]


OPERATORS: dict[str, type[Operator]] = {}
"""Every kind of operator."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting, field))
def operator(cls: type[O]) -> type[O]:
    """Make a class a frozen dataclass and register its `kind`."""
    made = dataclass(frozen=True, kw_only=True)(cls)
    assert OPERATORS.setdefault(made.kind, made) is made, f"two operators are called {made.kind}"
    return made


def branch_stream(operator: str, branch: str) -> str:
    """The stream of one branch of an operator."""
    return f"{operator}.{branch}" if branch else operator


def named(pairs: Pairs) -> Iterator[str]:
    """Columns in words; a plain one is named once."""
    return (name if name == text else f"{name} = {text}" for name, text in pairs)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(named(tuple((str(k), str(v)) for k, v in value.items())))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
