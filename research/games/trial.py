"""Strategies on the paper's loads: by the model, and task by task with finite buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from australis.elasticity.equilibrium import integer_optimum
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition
from research.games.control import STEP_S, Played, Seen, Strategy, play
from research.games.queues import Measurement, Queues
from research.games.strategies import Playing
from research.games.workloads import STEPS, WORKLOADS, Workload

ROUNDS = 50
"""More rounds than incentives ever take here."""
BUFFER = 20
"""The largest number of tasks queued at a module."""


def load_named(name: str) -> Workload:
    """One of the paper's loads."""
    return next(workload for workload in WORKLOADS if workload.name == name)


def repetition(workload: Workload, seed: int, steps: int = STEPS) -> list[float]:
    """The load of one repetition."""
    return workload.times_s(Random(f"{workload.name} {seed}"), steps)


def in_model(
    make: Callable[[Game, Sequence[float]], Strategy],
    load: Sequence[float],
    seed: int,
    known: bool = False,
    game: Game | None = None,
) -> Played:
    """One repetition, evaluated by the model."""
    game = game or object_recognition()
    return play(game, load, make(game, load), Random(f"measured {seed}"), known)


def optimum(load: Sequence[float], game: Game | None = None) -> Played:
    """The centralized optimum: full search, with knowledge of the whole load."""
    game = game or object_recognition()
    played = Played()
    for every_s in load:
        truth = game.arriving(every_s)
        played.add(truth, {name: int(n) for name, n in integer_optimum(truth).degrees.items()})
    return played


def selfish(game: Game, load: Sequence[float]) -> Strategy:
    """The non-cooperative strategy."""
    return Playing(game)


def cooperative(game: Game, load: Sequence[float]) -> Strategy:
    """The incentive-based strategy."""
    return Playing(game, rounds=ROUNDS)


# --- task by task -----------------------------------------------------------------------------------


@dataclass
class Worked:
    """The outcome of a load task by task, beside the model's prediction for the same cores."""

    completed: int = 0
    model_completed: float = 0.0
    cost: float = 0.0
    """The cost by the measured times between results."""
    model_cost: float = 0.0
    paces: list[tuple[float, float]] = field(default_factory=list)
    """The measured and the modelled pace of each step."""

    @property
    def agreement(self) -> float:
        """Completed tasks, relative to the model's prediction."""
        return self.completed / self.model_completed

    def apart(self, part: float) -> float:
        """The part of all steps in which the model is off by more than this: loads jump from step
        to step, and queues carry tasks over.
        """
        return sum(abs(real_s / model_s - 1) > part for real_s, model_s in self.paces) / len(
            self.paces
        )


def with_queues(
    make: Callable[[Game, Sequence[float]], Strategy],
    load: Sequence[float],
    seed: int,
    buffer: int = BUFFER,
) -> Worked:
    """One repetition task by task; strategies receive the measurements."""
    game = object_recognition()
    strategy = make(game, load)
    running_s = {name: module.service.running_s for name, module in game.modules.items()}
    seen = Seen(load[0], running_s, dict.fromkeys(game.modules, 1.0), {})
    cores = strategy.decide(seen)
    queues = Queues(game, cores, buffer, Random(f"queues {seed}"))
    worked = Worked()
    for step, every_s in enumerate(load):
        if step:
            cores = strategy.decide(seen)
            queues.give(cores)
        queues.arrive(every_s)
        found = queues.run(STEP_S)
        _note(worked, game.arriving(every_s), cores, found)
        seen = Seen(found.every_s, found.running_s, found.busy, cores)
    return worked


def _note(worked: Worked, truth: Game, cores: Mapping[str, int], found: Measurement) -> None:
    performance = truth.performance(cores)
    left = [name for name in truth.modules if not truth.graph.onward[name]]
    done = sum(found.completed[name] for name in left)
    worked.completed += done
    worked.model_completed += found.seconds / performance.pace_s
    worked.paces.append((found.seconds / max(1, done), performance.pace_s))
    worked.model_cost += truth.total(cores)
    worked.cost += sum(
        module.cost(cores[name], found.seconds / max(1, found.completed[name]))
        for name, module in truth.modules.items()
    )
