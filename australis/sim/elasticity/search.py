"""Seeds of agents that choose cores, one by one."""

from __future__ import annotations

from australis.protocols.elasticity.agent import AgentMachine
from australis.sim.elasticity.broken import BROKEN
from australis.sim.elasticity.run import Run
from australis.sim.elasticity.telling import tell
from australis.sim.seeds import Verdict

VARIANTS = {agent.__name__: agent for agent in BROKEN}


def _agent_of(variant: str | None) -> type[AgentMachine]:
    return AgentMachine if variant is None else VARIANTS[variant]


def judge(variant: str | None, seed: int) -> Verdict:
    """Run one seed."""
    run = Run(seed, _agent_of(variant))
    return Verdict(seed, tuple(run.run()), run.counts)


def story(variant: str | None, seed: int) -> tuple[Verdict, list[str]]:
    """Run one seed, and tell what was drawn, what failed and what was agreed on."""
    run = Run(seed, _agent_of(variant))
    violations = tuple(run.run())
    return Verdict(seed, violations, run.counts), tell(run)
