"""A calibration as an SVG picture, with its sentences below.

Plain SVG text: the shapes are laid out once (``core.calibration_plot``), and the window draws the
same with Qt. A plotting library would be a dependency for one picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from napari_ctvqa.core.calibration import calibration_words
from napari_ctvqa.core.calibration_plot import (
    COUNT,
    EQUAL,
    GRID,
    MARK,
    PlotBox,
    PlotLine,
    PlotShape,
    plotted,
)
from napari_ctvqa.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from napari_ctvqa.core.calibration import Calibration

WIDE_PX, HIGH_PX, TEXT_PX = 480.0, 520.0, 14.0
_LETTERS = 62
"""Of a line of the caption."""
_COLOURS = {GRID: "#c8c8c8", EQUAL: "#555555", MARK: "#0072B2", COUNT: "#8fbcd9"}


class CalibrationExport:
    """Writes one calibration as SVG."""

    name = "calibration"

    def write(self, found: Calibration, path: Path, title: str) -> None:
        """Write the picture; ``title`` is foreign text.

        Raises
        ------
        UsageError
            Where ``path`` does not end in .svg.
        """
        if path.suffix.lower() != ".svg":
            raise UsageError(f"{path} is no SVG file.", hint="Give a name that ends in .svg.")
        path.write_text(self.text(found, title), encoding="utf-8")

    def text(self, found: Calibration, title: str) -> str:
        """Return the SVG."""
        lines = [title, *calibration_words(found)]
        caption = [part for line in lines for part in _wrapped(line)]
        high = HIGH_PX + 1.4 * TEXT_PX * (len(caption) + 1)
        body = [_drawn(shape) for shape in plotted(found, WIDE_PX, HIGH_PX, TEXT_PX)]
        for row, line in enumerate(caption):
            body.append(_words(line, TEXT_PX, HIGH_PX + 1.4 * TEXT_PX * (row + 0.5), "start"))
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE_PX:.0f}" height="{high:.0f}" '
            f'viewBox="0 0 {WIDE_PX:.0f} {high:.0f}" font-family="sans-serif" '
            f'font-size="{TEXT_PX:.0f}">'
        )
        ground = f'<rect width="{WIDE_PX:.0f}" height="{high:.0f}" fill="#ffffff"/>'
        return "\n".join([head, ground, *body, "</svg>", ""])


def _drawn(shape: PlotShape) -> str:
    if isinstance(shape, PlotLine):
        dash = ' stroke-dasharray="6 4"' if shape.dashed else ""
        return (
            f'<line x1="{shape.x0:.1f}" y1="{shape.y0:.1f}" x2="{shape.x1:.1f}" '
            f'y2="{shape.y1:.1f}" stroke="{_COLOURS[shape.role]}" '
            f'stroke-width="{shape.width_px:g}"{dash}/>'
        )
    if isinstance(shape, PlotBox):
        return (
            f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.wide:.1f}" '
            f'height="{shape.high:.1f}" fill="{_COLOURS[shape.role]}"/>'
        )
    return _words(shape.text, shape.x, shape.y, shape.anchor)


def _words(text: str, x: float, y: float, anchor: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor={quoteattr(anchor)}>{escape(plain)}</text>'


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        word = word[:_LETTERS]
        if lines[-1] and len(lines[-1]) + len(word) + 1 > _LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


EXPORT = CalibrationExport()
