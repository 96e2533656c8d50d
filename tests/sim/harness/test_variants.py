"""Every broken variant of every model is caught by the checkers that are meant for it."""

from __future__ import annotations

import pytest

from australis.sim.harness.model import HARNESS_CHECKERS
from australis.sim.harness.variants import catch
from australis.sim.models import NAMES, load

VARIANTS = [(name, variant) for name in NAMES for variant in load(name).variants]


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_caught_by_the_checkers_meant_for_it(name: str, variant: str) -> None:
    model = load(name)
    caught = catch(model, model.variants[variant])
    assert not caught.missed, f"only {caught.seeds} have noticed"


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_says_what_it_does_and_who_must_notice(name: str) -> None:
    model = load(name)
    assert len(model.variants) >= 5
    for key, variant in model.variants.items():
        assert variant.name == key
        assert variant.says.endswith(".")
        assert variant.caught_by
        assert set(variant.caught_by) <= {*model.checkers, *HARNESS_CHECKERS}
        assert variant.preset in {"", *model.presets}
