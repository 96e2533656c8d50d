"""The simulated network: latency, loss, duplication, delay and cuts, link by link.

A link has one direction. Messages on one link keep their order unless the link is configured
otherwise; across links there is no order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random


@dataclass(slots=True)
class Link:
    """One direction between two nodes."""

    latency_us: int = 1_000
    jitter_us: int = 500
    loss: float = 0.0
    duplicate: float = 0.0
    extra_us: int = 0
    """An extra delay while the link is slow."""
    cuts: int = 0
    """The number of faults that cut the link; it works at zero."""
    in_order: bool = True
    free_at: int = 0

    def __str__(self) -> str:
        return (
            f"{self.latency_us / 1e3:g} ms and more, {self.loss:.0%} lost,"
            f" {self.duplicate:.0%} doubled, {'in order' if self.in_order else 'in any order'}"
        )


class Network:
    """All links; a link without settings of its own has the default's latency and no loss."""

    def __init__(self, rng: Random, default: Link | None = None) -> None:
        self._rng = rng
        self._default = default or Link()
        self._links: dict[tuple[str, str], Link] = {}
        self.lost = 0

    def link(self, sender: str, to: str) -> Link:
        """The link from one node to another."""
        found = self._links.get((sender, to))
        if found is None:
            d = self._default
            found = Link(d.latency_us, d.jitter_us, d.loss, d.duplicate, in_order=d.in_order)
            self._links[(sender, to)] = found
        return found

    def heal(self) -> None:
        """End loss and duplication on all links."""
        self._default = replace(self._default, loss=0.0, duplicate=0.0)
        for link in self._links.values():
            link.loss = link.duplicate = 0.0

    def cut(self, sender: str, to: str) -> None:
        """Block all messages from one node to another."""
        self.link(sender, to).cuts += 1

    def mend(self, sender: str, to: str) -> None:
        """Undo one cut."""
        self.link(sender, to).cuts -= 1

    def deliveries(self, sender: str, to: str, now: int) -> list[int]:
        """The arrival times of a message sent now: none, one, or several."""
        link = self._links.get((sender, to))
        if link is None:
            # Only a link that keeps order needs state, so that large networks create few links.
            link = self.link(sender, to) if self._default.in_order else self._default
        if link.cuts:
            self.lost += 1
            return []
        random = self._rng.random
        if link.loss and random() < link.loss:
            self.lost += 1
            return []
        arrives = now + link.latency_us + link.extra_us + int(link.jitter_us * random())
        if link.in_order:
            if arrives < link.free_at:
                arrives = link.free_at
            link.free_at = arrives
        if link.duplicate and random() < link.duplicate:
            return [arrives, arrives + link.latency_us]
        return [arrives]
