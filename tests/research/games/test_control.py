"""Control steps by the model: strategies, rivals, loads."""

from __future__ import annotations

from random import Random

import pytest

from australis.elasticity.equilibrium import best_equilibrium, integer_optimum
from australis.elasticity.generate import object_recognition
from australis.elasticity.inertia import Inertia
from research.games.control import STEP_S, Seen, play
from research.games.rivals import Static, Target, Threshold, TrueRates, enough
from research.games.strategies import Playing
from research.games.workloads import LEVEL_S, STEPS, WORKLOADS, Workload

GAME = object_recognition()
RUNNING = {name: module.service.running_s for name, module in GAME.modules.items()}
HEAVY, LIGHT = 0.5, 0.9


def seen(every_s: float, cores: dict[str, int], busy: float = 1.0) -> Seen:
    return Seen(every_s, RUNNING, dict.fromkeys(GAME.modules, busy), cores)


# --- what is played -----------------------------------------------------------------------------


def test_a_steady_load_is_decided_once() -> None:
    played = play(GAME, [LIGHT] * 10, Playing(GAME, newest=1.0), Random(1), known=True)
    assert set(played.changes().values()) == {0}
    assert played.completed() == pytest.approx(10 * STEP_S / LIGHT)
    truth = GAME.arriving(LIGHT)
    assert played.cost == pytest.approx(10 * truth.total(played.cores[0]))


def test_with_one_round_the_best_equilibrium_is_played() -> None:
    strategy = Playing(GAME, newest=1.0)
    play(GAME, [HEAVY, LIGHT], strategy, Random(1), known=True)
    for outcome, every_s in zip(strategy.outcomes, (HEAVY, LIGHT), strict=True):
        assert outcome.profile == best_equilibrium(GAME.arriving(every_s))


def test_cooperation_follows_a_heavy_load_and_selfish_modules_do_not() -> None:
    alone = play(GAME, [HEAVY], Playing(GAME, newest=1.0), Random(1), known=True)
    together = play(GAME, [HEAVY], Playing(GAME, 50, newest=1.0), Random(1), known=True)
    assert together.paces_s[0] == pytest.approx(HEAVY)
    assert alone.paces_s[0] == pytest.approx(max(14.44 / 21, 7.80 / 11))
    assert together.cost < alone.cost


def test_estimates_lag_behind() -> None:
    """After a jump an average of half and half is at the middle."""
    strategy = Playing(GAME, 50, newest=0.5)
    strategy.decide(seen(LIGHT, {}))
    cores = strategy.decide(seen(HEAVY, {}))
    assert cores == Playing(GAME, 50).decide(seen((LIGHT + HEAVY) / 2, {}))


def test_measurements_err_like_means() -> None:
    """300 s with a task every 0.5 s: 0.3 / sqrt(600) of the mean."""
    errors = []
    for seed in range(200):
        strategy = Playing(GAME, newest=1.0)
        spied: list[Seen] = []
        decide = strategy.decide
        strategy.decide = lambda s, d=decide, to=spied: (to.append(s), d(s))[1]  # type: ignore[method-assign]
        play(GAME, [0.8, 0.8], strategy, Random(seed))
        errors.append(spied[1].every_s / 0.8 - 1)
    spread = (sum(e * e for e in errors) / len(errors)) ** 0.5
    assert spread == pytest.approx(0.3 / (STEP_S / 0.8) ** 0.5, rel=0.25)


def test_hysteresis_keeps_cores_that_cost_little() -> None:
    had = enough(GAME, 0.80)
    stiff = Playing(GAME, 50, newest=1.0, inertia=Inertia(cost=10.0))
    loose = Playing(GAME, 50, newest=1.0)
    assert stiff.decide(seen(LIGHT, had)) == had
    assert loose.decide(seen(LIGHT, had)) != had


# --- rivals -----------------------------------------------------------------------------------------


def test_enough_is_enough_and_no_more() -> None:
    cores = enough(GAME, HEAVY)
    assert cores == {
        "dispatcher": 1,
        "denoiser-1": 3,
        "denoiser-2": 4,
        "edge-detector": 16,
        "recognizer": 29,
    }
    assert enough(GAME, 0.1)["recognizer"] == 32


def test_true_rates_are_right_at_once() -> None:
    """DS2: one decision, from any cores, with what a core does while it works."""
    rival = TrueRates(GAME, newest=1.0)
    assert rival.decide(seen(HEAVY, enough(GAME, LIGHT), 0.2)) == enough(GAME, HEAVY)


def test_thresholds_go_up_and_down_by_steps() -> None:
    rival = Threshold(GAME, 0.8, 0.5, 0.1)
    cores = enough(GAME, HEAVY)
    assert rival.decide(seen(HEAVY, cores, 0.9))["recognizer"] == 32
    assert rival.decide(seen(HEAVY, cores, 0.9))["dispatcher"] == 1
    assert rival.decide(seen(HEAVY, cores, 0.6)) == cores
    assert rival.decide(seen(HEAVY, cores, 0.4))["recognizer"] == 26


def told(rival: Target, every_s: float, cores: dict[str, int]) -> dict[str, int]:
    """What it decides after a whole window of the same."""
    for _ in range(rival.window):
        found = rival.decide(seen(every_s, cores))
    return found


def test_a_target_leaves_alone_what_is_near_it() -> None:
    rival = Target(GAME)
    cores = rival.decide(seen(LIGHT, {}))
    assert cores == enough(GAME, LIGHT, 0.7)
    assert told(rival, LIGHT * 0.8, cores) == cores


def test_a_target_sets_all_anew_if_one_is_far_from_it_and_then_rests() -> None:
    rival = Target(GAME)
    cores = {**enough(GAME, LIGHT, 0.7), "recognizer": 12}
    found = told(rival, LIGHT * 0.9, cores)
    assert found == enough(GAME, LIGHT * 0.9, 0.7)
    assert found["edge-detector"] > cores["edge-detector"], "which was near it"
    for _ in range(rival.rest + rival.window - 1):
        assert rival.decide(seen(LIGHT * 9, found)) == found
    assert rival.decide(seen(LIGHT * 9, found)) != found


def test_a_target_gives_back_not_too_much_at_once() -> None:
    rival = Target(GAME)
    had = {**enough(GAME, HEAVY), "recognizer": 30}
    assert told(rival, 9.0, had)["recognizer"] == 12


def test_static_cores_are_enough_for_the_peak_or_the_mean() -> None:
    load = [0.5, 1.0]
    assert Static.peak(GAME, load).decide(seen(1.0, {})) == enough(GAME, 0.5)
    assert Static.mean(GAME, load).decide(seen(1.0, {})) == enough(GAME, 1 / 1.5)


@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_nobody_beats_the_integer_optimum(factor: float) -> None:
    from research.games.compare import priced

    game = priced(factor)
    load = [0.4, 0.5, 0.7, 1.0]
    best = sum(integer_optimum(game.arriving(every_s)).cost for every_s in load)
    for strategy in (Playing(game, 50), Playing(game), TrueRates(game), Target(game)):
        assert play(game, load, strategy, Random(1), known=True).cost >= best * (1 - 1e-12)


# --- loads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_loads_are_light_where_the_paper_says(workload: Workload) -> None:
    """Both strategies decide the same there (games 6.2), and nowhere else."""
    for step, every_s in enumerate(workload.curve()):
        light = any(begin <= step <= end for begin, end in workload.same)
        if light:
            assert every_s >= LEVEL_S - 1e-9, step
        else:
            assert every_s < LEVEL_S, step


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_loads_are_noisy_around_their_curve(workload: Workload) -> None:
    load, curve = workload.times_s(Random(3)), workload.curve()
    assert len(load) == STEPS
    errors = [real / mean - 1 for real, mean in zip(load, curve, strict=True)]
    spread = (sum(e * e for e in errors) / len(errors)) ** 0.5
    assert spread == pytest.approx(workload.noise, rel=0.5)
    assert load == workload.times_s(Random(3)) != workload.times_s(Random(4))


def test_the_level_is_that_of_the_best_equilibrium() -> None:
    assert best_equilibrium(GAME).pace_s == pytest.approx(LEVEL_S, abs=1e-3)
