"""Drawings of a diagram: boxes and arrows for a terminal, SVG for a page.

`draw_text(diagram, fragments=None, *, width=100)` and
`draw_svg(diagram, fragments=None)`; `fragments` says which fragment each
operator belongs to, by name.
"""

from __future__ import annotations

from australis.diagram.boxes import draw_text
from australis.diagram.svg import draw_svg

__all__ = ["draw_svg", "draw_text"]
