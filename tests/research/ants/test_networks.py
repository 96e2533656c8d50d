"""Networks that were measured."""

from __future__ import annotations

from random import Random

import pytest

from australis.kernel.errors import UserError
from research.ants.networks import measured


def test_real_networks() -> None:
    network = measured("topozoo/Abilene", Random(1))
    assert len(network.servers) == 11
    assert network.way("New York", "Seattle")
    with pytest.raises(UserError, match="is not a network of topohub"):
        measured("topozoo/Nowhere", Random(1))
