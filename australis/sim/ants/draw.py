"""Draws where queries run: servers lie as far apart as the latency between them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise

import numpy as np

from australis.placement.model import Books, Placement
from australis.placement.network import Network
from australis.placement.queries import Query

COLOURS = ("#1f6fb4", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#17a2b8", "#a0522d", "#4a4a4a")
WIDTH, HEIGHT, EDGE = 900, 620, 70
APART = 26.0
"""The smallest distance of two servers in the picture."""


def svg(network: Network, queries: Mapping[str, Query], placements: Mapping[str, Placement]) -> str:
    """The picture as an SVG document."""
    at = places(network)
    books = Books(network)
    for name, placement in placements.items():
        books.add(queries[name], placement)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for here, there in network.links:
        if here < there or (there, here) not in network.links:
            lines.append(_line(at[here], at[there], "#cccccc", 1.5))
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(placements)}
    for number, (name, placement) in enumerate(placements.items()):
        shift = 3.0 * (number % 5 - 2)
        for edge in queries[name].edges:
            route = placement.route(edge, queries[name], network) or ()
            for here, there in pairwise(route):
                lines.append(_line(at[here], at[there], colours[name], 2.5, shift))
    for name, server in network.servers.items():
        x, y = at[name]
        load = books.use(name).load
        radius = 7 + 4 * server.speed**0.5
        lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{_shade(load)}"'
            f' stroke="#333333"><title>{escape(name)}: speed {server.speed:g}, load'
            f" {load:.2f}</title></circle>"
        )
        lines.append(_text(x, y - radius - 3, name, "#333333"))
        lines += _tasks(name, x, y + radius + 12, placements, colours)
    for number, (name, colour) in enumerate(colours.items()):
        latency = books.latency_s(name) * 1e3
        y = 18 + 15 * number
        lines.append(_text(10, y, f"{name}: {latency:.2f} ms", colour, "start"))
    return "\n".join([*lines, "</svg>"])


def _tasks(
    server: str,
    x: float,
    y: float,
    placements: Mapping[str, Placement],
    colours: Mapping[str, str],
) -> list[str]:
    found: list[str] = []
    for name, placement in placements.items():
        here = [task for task, host in placement.hosts.items() if host == server]
        if here:
            found.append(_text(x, y + 12 * len(found), ", ".join(here), colours[name]))
    return found


def _line(
    a: tuple[float, float], b: tuple[float, float], colour: str, width: float, shift: float = 0.0
) -> str:
    # Shifted sideways, so that queries on one link are drawn beside each other.
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = max(1.0, (dx * dx + dy * dy) ** 0.5)
    sx, sy = -dy / length * shift, dx / length * shift
    return (
        f'<line x1="{a[0] + sx:.1f}" y1="{a[1] + sy:.1f}" x2="{b[0] + sx:.1f}"'
        f' y2="{b[1] + sy:.1f}" stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(x: float, y: float, text: str, colour: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"'
        ' paint-order="stroke" stroke="white" stroke-width="3">'
        f"{escape(text)}</text>"
    )


def _shade(load: float) -> str:
    """The color of a server: white when idle, red when busy."""
    part = int(255 * (1 - min(1.0, load)))
    return f"#ff{part:02x}{part:02x}"


def places(network: Network) -> dict[str, tuple[float, float]]:
    """The places of servers: distances are like latencies, as far as two dimensions allow."""
    names = sorted(network.servers)
    size = len(names)
    far = np.array([[network.latencies_s(a).get(b, 0.0) for b in names] for a in names])
    far = (far + far.T) / 2
    # Classical scaling: the two largest axes of the centred squares of the distances.
    centre = np.eye(size) - np.ones((size, size)) / size
    values, vectors = np.linalg.eigh(-0.5 * centre @ far**2 @ centre)
    at = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0)) if size > 1 else np.zeros((1, 2))
    at = np.hstack([at, np.zeros((size, 2 - at.shape[1]))])
    at = at[:, ::-1] * np.sign(at[0, ::-1] + 1e-12)
    low, spread = at.min(axis=0), np.maximum(np.ptp(at, axis=0), 1e-9)
    at = (at - low) / spread * (WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE) + EDGE
    for _ in range(60):
        apart = at[:, None, :] - at[None, :, :]
        length = np.linalg.norm(apart, axis=2) + np.eye(size) * 1e9
        close = length < APART * 2
        turn = np.arange(size)[:, None] - np.arange(size)[None, :]
        jitter = (
            np.stack([np.cos(turn * 2.4), np.sin(turn * 2.4)], axis=2) * np.sign(turn)[..., None]
        )
        push = np.where(close[..., None], (apart / length[..., None] + 0.2 * jitter) * 3.0, 0.0)
        at = np.clip(at + push.sum(axis=1), EDGE / 2, (WIDTH - EDGE / 2, HEIGHT - EDGE / 2))
    return {name: (float(x), float(y)) for name, (x, y) in zip(names, at, strict=True)}
