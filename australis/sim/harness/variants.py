"""Broken variants: whether each one is caught by the checkers meant for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from australis.sim.harness.model import Model, Setup, Variant
from australis.sim.harness.search import judge


@dataclass(frozen=True)
class Caught:
    """The reports of the checkers for one variant."""

    variant: Variant[Any]
    seeds: dict[str, int]
    """The first seed that each checker reported, whether meant for the variant or not."""

    @property
    def missed(self) -> tuple[str, ...]:
        """The checkers that should have reported and did not."""
        return tuple(c for c in self.variant.caught_by if c not in self.seeds)


def catch(model: Model[Any], variant: Variant[Any]) -> Caught:
    """Run the seeds of a variant until all checkers meant for it have reported."""
    setup = Setup(model, variant.preset, variant.name)
    found: dict[str, int] = {}
    for seed in variant.seeds:
        for violation in judge(setup, seed).violations:
            found.setdefault(violation.checker, seed)
        if set(variant.caught_by) <= set(found):
            break
    return Caught(variant, found)


def catch_all(model: Model[Any]) -> Iterator[Caught]:
    """Run all variants of a model."""
    return (catch(model, variant) for variant in model.variants.values())
